//! The builder of programs.

use cuda_std::tensor_map::{Boxes, TensorMap};
use cuda_std::{Instance, KernelArgs};
use kernels_gpu::copy_strided::COPY_STRIDED;
use launch_config::copy_strided::{Collapsed, CopyGeometry};

use super::arguments::{Arguments, Places, Use};
use super::memory::{Life, pack};
use super::{Input, Launch, Place, Program, Step, Value, ValueFacts};
use crate::device::{DType, Device, DeviceProperties, LaunchShape, Order, Stream, Tensor};
use crate::error::{Error, Result};

/// A program under construction.
///
/// Operators take it with the handles of their inputs, and append the launches that compute their output.
#[derive(Debug)]
pub(crate) struct ProgramBuilder {
    device: Device,
    properties: DeviceProperties,
    values: Vec<ValueFacts>,
    inputs: Vec<Input>,
    parameters: Vec<Tensor>,
    steps: Vec<Step>,
}

impl ProgramBuilder {
    /// An empty program for a device that runs kernels.
    pub(crate) fn new(device: &Device) -> ProgramBuilder {
        ProgramBuilder::for_properties(device, &device.properties())
    }

    /// The same with other properties than the device's. The program must not be run.
    pub(crate) fn for_properties(device: &Device, properties: &DeviceProperties) -> ProgramBuilder {
        ProgramBuilder {
            device: device.clone(),
            properties: *properties,
            values: Vec::new(),
            inputs: Vec::new(),
            parameters: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The properties by which kernels are chosen.
    pub(crate) fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// An input of every run, with layout `order`. An input that is not dense is copied first.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`]
    pub(crate) fn input(&mut self, shape: &[usize], dtype: DType, order: &Order) -> Result<Value> {
        self.input_as(shape, dtype, order, dtype)
    }

    /// The same as [`input_as`](Self::input_as) for an input with a name for errors.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub(crate) fn named_input(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        order: &Order,
        wanted: DType,
    ) -> Result<Value> {
        let value = self.input_as(shape, dtype, order, wanted)?;
        let input = self.inputs.last_mut();
        input.expect("it was just made").name = Some(name.into());
        Ok(value)
    }

    /// The same as [`input`](Self::input), with a copy of another element type.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub(crate) fn input_as(
        &mut self,
        shape: &[usize],
        dtype: DType,
        order: &Order,
        wanted: DType,
    ) -> Result<Value> {
        let x = self.input_as_it_lies(shape, dtype, order)?;
        match order {
            Order::Dense if dtype == wanted => Ok(x),
            _ => self.copied(x, order, wanted),
        }
    }

    /// An input of every run, with layout `order`, without a copy. Callers use its
    /// [`strides`](Self::strides), or make it dense by [`in_order`](Self::in_order).
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub(crate) fn input_as_it_lies(
        &mut self,
        shape: &[usize],
        dtype: DType,
        order: &Order,
    ) -> Result<Value> {
        let x = self.value(shape, dtype, Place::Input(self.inputs.len()))?;
        self.inputs.push(Input {
            value: x,
            order: *order,
            dense: None,
            name: None,
        });
        Ok(x)
    }

    /// `x`, or where it is not dense a copy that is.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`]
    pub(crate) fn in_order(&mut self, x: Value) -> Result<Value> {
        let Place::Input(index) = self.values[x.0].place else {
            return Ok(x); // All else is dense.
        };
        let Input { order, dense, .. } = self.inputs[index];
        match (order, dense) {
            (Order::Dense, _) => Ok(x),
            (_, Some(dense)) => Ok(dense),
            (order, None) => {
                let dense = self.copied(x, &order, self.dtype(x))?;
                self.inputs[index].dense = Some(dense);
                Ok(dense)
            }
        }
    }

    /// `x`, which is dense, as `dtype`.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`]
    pub(crate) fn converted(&mut self, x: Value, dtype: DType) -> Result<Value> {
        match self.dtype(x) == dtype {
            true => Ok(x),
            false => self.copied(x, &Order::Dense, dtype),
        }
    }

    /// Appends the launch that makes a dense copy of `x` as `dtype`.
    fn copied(&mut self, x: Value, order: &Order, dtype: DType) -> Result<Value> {
        let geometry = match order {
            Order::Dense => {
                let len = self.values[x.0].bytes as usize / self.dtype(x).size();
                CopyGeometry::new(&Collapsed::new(&[len], &[1])?, true)
            }
            Order::Strided { axes, is_aligned } => CopyGeometry::new(axes, *is_aligned),
        };
        let shape = self.shape(x).to_vec();
        let y = self.tensor(&shape, dtype)?;
        let operator = COPY_STRIDED.name();
        let kernel = COPY_STRIDED.instance(&[self.dtype(x).label(), dtype.label()])?;
        let shape = geometry.shape().ok_or(Error::TooManyBlocks { operator })?;
        // SAFETY: `order` is that of every `x`, whose memory thus has what the geometry says; `y` has as many
        // elements.
        unsafe { self.launch(kernel, shape, (x, y, geometry)) };
        Ok(y)
    }

    /// A parameter: a tensor of the program's device that is the same in every run.
    pub(crate) fn parameter(&mut self, tensor: &Tensor) -> Value {
        assert_eq!(
            *tensor.device(),
            self.device,
            "who makes a program has checked where its parameters are"
        );
        let place = Place::Parameter(self.parameters.len());
        self.parameters.push(tensor.clone());
        let value = self.value(tensor.shape(), tensor.dtype(), place);
        value.expect("the device has a tensor of this size")
    }

    /// The same for an optional tensor.
    pub(crate) fn optional_parameter(&mut self, tensor: Option<&Tensor>) -> Option<Value> {
        tensor.map(|tensor| self.parameter(tensor))
    }

    /// A value that the program computes: the first launch that uses it writes all of it.
    pub(crate) fn tensor(&mut self, shape: &[usize], dtype: DType) -> Result<Value> {
        self.value(shape, dtype, Place::Workspace(0))
    }

    /// The same with the shape and the element type of another value.
    pub(crate) fn tensor_like(&mut self, value: Value) -> Result<Value> {
        let ValueFacts { shape, dtype, .. } = &self.values[value.0];
        let (shape, dtype) = (shape.clone(), *dtype);
        self.tensor(&shape, dtype)
    }

    fn value(&mut self, shape: &[usize], dtype: DType, place: Place) -> Result<Value> {
        let bytes = self.device.bytes_of(shape, dtype)?;
        self.values.push(ValueFacts {
            shape: shape.into(),
            dtype,
            bytes: bytes as u64,
            place,
            life: None,
        });
        Ok(Value(self.values.len() - 1))
    }

    /// The value's extents, outermost first.
    pub(crate) fn shape(&self, value: Value) -> &[usize] {
        &self.values[value.0].shape
    }

    /// Changes a value's shape to another one with the same number of elements.
    ///
    /// # Panics
    /// For another number of elements.
    pub(crate) fn see_as(&mut self, value: Value, shape: &[usize]) {
        let facts = &mut self.values[value.0];
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        assert_eq!(elements(&facts.shape), elements(shape), "the same elements");
        facts.shape = shape.into();
    }

    /// The value's element type.
    pub(crate) fn dtype(&self, value: Value) -> DType {
        self.values[value.0].dtype
    }

    /// The tensor behind a parameter, if it is the same in every run.
    pub(crate) fn known(&self, parameter: Value) -> Option<&Tensor> {
        match self.values[parameter.0].place {
            Place::Parameter(index) => Some(&self.parameters[index]),
            _ => None,
        }
    }

    /// Bytes of all the values together.
    pub(crate) fn bytes(&self, values: &[Value]) -> u64 {
        values.iter().map(|&value| self.values[value.0].bytes).sum()
    }

    /// Appends a launch of `kernel` that moves every value among its arguments once. A launch without blocks
    /// is left out.
    ///
    /// # Panics
    /// As [`launch_moving`](Self::launch_moving).
    ///
    /// # Safety
    /// As [`launch_moving`](Self::launch_moving).
    pub(crate) unsafe fn launch<A: KernelArgs>(
        &mut self,
        kernel: &'static Instance<A>,
        shape: LaunchShape,
        arguments: impl Arguments<A>,
    ) {
        let uses = arguments.uses().into_iter();
        let bytes_moved = uses.map(|used| self.bytes(&[used.value])).sum();
        // SAFETY: the caller's to grant.
        unsafe { self.launch_moving(kernel, shape, arguments, bytes_moved) }
    }

    /// The same for a launch that moves `bytes_moved` bytes by its own account. All launches of operators go
    /// through this function.
    ///
    /// # Panics
    /// If a value has another element type than the kernel's parameter, is read before it was written, or is
    /// written although it is an input or a parameter. These are bugs of an operator.
    ///
    /// # Safety
    /// With the values' addresses, the arguments satisfy the kernel's *Safety* section: the values have as
    /// many elements as it accesses, and start on 256 bytes if the device's allocations do. No two values
    /// overlap while both are used.
    pub(crate) unsafe fn launch_moving<A: KernelArgs>(
        &mut self,
        kernel: &'static Instance<A>,
        shape: LaunchShape,
        arguments: impl Arguments<A>,
        bytes_moved: u64,
    ) {
        let now = self.steps.len();
        for used in arguments.uses() {
            let (facts, is_written) = (&mut self.values[used.value.0], used.is_written);
            let kernel = kernel.name();
            let takes = (used.dtype).is_none_or(|dtype| facts.dtype == dtype);
            assert!(takes, "{kernel} takes no {}", facts.dtype);
            let is_own = matches!(facts.place, Place::Workspace(_));
            assert!(is_own || !is_written, "{kernel} writes what is not its own");
            let is_there = !is_own || facts.life.is_some() || facts.bytes == 0;
            assert!(is_there || is_written, "{kernel} reads what nothing wrote");
            let [born, _] = facts.life.unwrap_or([now; 2]);
            facts.life = Some([born, now]);
        }
        if shape.is_empty() {
            return;
        }
        self.steps.push(Step {
            kernel: kernel.name(),
            shape,
            bytes_moved,
            launch: Box::new(Typed { kernel, arguments }),
        });
    }

    /// The program, whose results are `outputs`.
    pub(crate) fn finish(mut self, outputs: &[Value]) -> Program {
        for (index, output) in outputs.iter().enumerate() {
            let facts = &mut self.values[output.0];
            assert!(
                matches!(facts.place, Place::Workspace(_)),
                "an output is computed, and is given once"
            );
            assert!(
                facts.life.is_some() || facts.bytes == 0,
                "an output is written"
            );
            facts.place = Place::Output(index);
        }
        let life = |facts: &ValueFacts| match (facts.place, facts.life) {
            (Place::Workspace(_), Some([born, last])) => Life {
                bytes: facts.bytes,
                born,
                gone_by: last + 1,
            },
            // Only intermediate values are in the workspace.
            _ => Life::default(),
        };
        let lives: Vec<Life> = self.values.iter().map(life).collect();
        let (offsets, workspace_bytes) = pack(&lives);
        // Keep only parameters that a launch reads. Others were used to prepare parameters.
        let mut parameters = Vec::new();
        for (facts, offset) in self.values.iter_mut().zip(offsets) {
            match (&mut facts.place, facts.life) {
                (Place::Workspace(place), _) => *place = offset,
                (Place::Parameter(index), Some(_)) => {
                    parameters.push(self.parameters[*index].clone());
                    *index = parameters.len() - 1;
                }
                _ => {}
            }
        }
        Program {
            inputs: self.inputs.into(),
            outputs: outputs.into(),
            values: self.values.into(),
            parameters: parameters.into(),
            steps: self.steps.into(),
            workspace_bytes,
        }
    }
}

/// The addresses of a launch's values.
struct Addresses<'a> {
    stream: &'a Stream,
    addresses: &'a [*mut u8],
}

impl Places for Addresses<'_> {
    fn address(&mut self, used: Use) -> *mut u8 {
        self.addresses[used.value.0]
    }

    fn tensor_map(&mut self, boxes: &Boxes, address: *const u8) -> Result<TensorMap> {
        self.stream.device().tensor_map(boxes, address)
    }
}

/// A launch of a kernel whose parameters are `A`.
struct Typed<A: 'static, R> {
    kernel: &'static Instance<A>,
    arguments: R,
}

impl<A: KernelArgs, R: Arguments<A>> Launch for Typed<A, R> {
    fn load(&self, stream: &Stream, shape: &LaunchShape) -> Result<()> {
        stream.load(self.kernel, shape)
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        addresses: &[*mut u8],
    ) -> Result<()> {
        let mut places = Addresses { stream, addresses };
        let arguments = self.arguments.resolve(&mut places)?;
        // SAFETY: who appended the launch vouched for these arguments, and the caller for the addresses.
        unsafe { stream.launch(self.kernel, shape, arguments) }
    }
}
