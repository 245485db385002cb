//! The builder of programs.

mod copies;
mod parameters;
mod reformats;
mod renewed;

use cuda_std::tensor_map::{MapMode, TensorMap};
use cuda_std::{Family, Instance, KernelArgs, Label};

use super::arguments::{Arguments, Places, Use};
use super::memory::{Life, pack};
use super::{Input, Launch, Place, Program, Step, Value, ValueFacts};
use crate::device::{DType, Device, LaunchShape, Order, Stream, Tensor};
use crate::error::{Error, Result};
pub(crate) use copies::channels_last;

/// A program under construction. Operators append their launches to it, with the handles of their values.
#[derive(Debug)]
pub(crate) struct ProgramBuilder {
    device: Device,
    values: Vec<ValueFacts>,
    inputs: Vec<Input>,
    /// The tensors of parameters, if they are known.
    parameters: Vec<Option<Tensor>>,
    steps: Vec<Step>,
    /// Renewed parameters, with the values that replace them.
    renewed: Vec<[Value; 2]>,
    /// Inputs reformatted for implicit GEMMs.
    reformats: Vec<reformats::Reformat>,
}

impl ProgramBuilder {
    /// An empty program. Errors name `device`, which may be any if the program is only explained.
    pub(crate) fn new(device: &Device) -> ProgramBuilder {
        ProgramBuilder {
            device: device.clone(),
            values: Vec::new(),
            inputs: Vec::new(),
            parameters: Vec::new(),
            steps: Vec::new(),
            renewed: Vec::new(),
            reformats: Vec::new(),
        }
    }

    /// An empty program for the same device, to prepare this program's parameters.
    pub(crate) fn beside(&self) -> ProgramBuilder {
        ProgramBuilder::new(&self.device)
    }

    /// The kernels of the launches so far.
    pub(crate) fn kernels(&self) -> impl ExactSizeIterator<Item = &'static str> {
        self.steps.iter().map(|step| step.kernel)
    }

    /// An input of every run, with layout `order`. An input that is not dense is copied first.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`]
    pub(crate) fn input(&mut self, shape: &[usize], dtype: DType, order: &Order) -> Result<Value> {
        self.input_as(None, shape, dtype, order, dtype)
    }

    /// [`input`](Self::input) with a copy of another element type. Errors use the input's name, if it has
    /// one.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub(crate) fn input_as(
        &mut self,
        name: Option<&str>,
        shape: &[usize],
        dtype: DType,
        order: &Order,
        wanted: DType,
    ) -> Result<Value> {
        let x = self.input_as_it_lies(name, shape, dtype, order)?;
        if *order == Order::Dense && dtype == wanted {
            return Ok(x);
        }
        self.copied(x, wanted)
    }

    /// An input of every run, with layout `order`, without a copy. Errors use the input's name, if it has
    /// one. Kernels read it in place, or as [`in_order`](Self::in_order).
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub(crate) fn input_as_it_lies(
        &mut self,
        name: Option<&str>,
        shape: &[usize],
        dtype: DType,
        order: &Order,
    ) -> Result<Value> {
        let place = Place::Input(self.inputs.len());
        let value = self.value(shape, dtype, place, *order)?;
        let name = name.map(Box::from);
        self.inputs.push(Input { value, name });
        Ok(value)
    }

    /// A value that the program computes: the first launch that uses it writes all of it.
    pub(crate) fn tensor(&mut self, shape: &[usize], dtype: DType) -> Result<Value> {
        self.tensor_as(shape, dtype, Order::Dense)
    }

    /// [`tensor`](Self::tensor) with layout `order`, in which the launches write it.
    pub(crate) fn tensor_as(
        &mut self,
        shape: &[usize],
        dtype: DType,
        order: Order,
    ) -> Result<Value> {
        self.value(shape, dtype, Place::Workspace(0), order)
    }

    /// A tensor with the shape, the element type and the layout of another value.
    pub(crate) fn tensor_like(&mut self, value: Value) -> Result<Value> {
        let ValueFacts {
            shape,
            dtype,
            order,
            ..
        } = &self.values[value.0];
        let (shape, dtype, order) = (shape.clone(), *dtype, *order);
        self.tensor_as(&shape, dtype, order)
    }

    fn value(
        &mut self,
        shape: &[usize],
        dtype: DType,
        place: Place,
        order: Order,
    ) -> Result<Value> {
        let bytes = self.device.bytes_of(shape, dtype)?;
        self.values.push(ValueFacts {
            shape: shape.into(),
            dtype,
            bytes: bytes as u64,
            order,
            nchw: None,
            nhwc: None,
            place,
            life: None,
        });
        Ok(Value(self.values.len() - 1))
    }

    /// The value's extents, outermost first.
    pub(crate) fn shape(&self, value: Value) -> &[usize] {
        &self.values[value.0].shape
    }

    /// Changes a value's shape to one with the same number of elements.
    ///
    /// # Panics
    /// If the number of elements differs.
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

    /// The label of kernels for values of this value's element type alone.
    pub(crate) fn label(&self, value: Value) -> [Label; 1] {
        [self.dtype(value).label()]
    }

    /// The total bytes of the values.
    pub(crate) fn bytes(&self, values: &[Value]) -> u64 {
        values.iter().map(|&value| self.values[value.0].bytes).sum()
    }

    /// Appends a launch of the kernel of `family` with these labels. It moves every value among its arguments
    /// once.
    ///
    /// # Errors
    /// As [`launch_moving`](Self::launch_moving).
    ///
    /// # Panics
    /// As [`launch_moving`](Self::launch_moving).
    ///
    /// # Safety
    /// As [`launch_moving`](Self::launch_moving).
    pub(crate) unsafe fn launch<A: KernelArgs>(
        &mut self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
        arguments: impl Arguments<A>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.add(family, labels, shape, arguments, None) }
    }

    /// Appends a launch that moves `bytes_moved` bytes, as the operator declares it. A launch without blocks
    /// is left out.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`] if there is no shape; an error if no kernel has the labels.
    ///
    /// # Panics
    /// If a value's element type differs from the kernel parameter's, or a value is read before it is
    /// written, or an input or a parameter is written. These are bugs of an operator.
    ///
    /// # Safety
    /// With the values' addresses, the arguments satisfy the kernel's *Safety* section. The values have as
    /// many elements as the kernel accesses, and start on 256 bytes if the device's allocations do. No two
    /// values overlap while both are in use.
    pub(crate) unsafe fn launch_moving<A: KernelArgs>(
        &mut self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
        arguments: impl Arguments<A>,
        bytes_moved: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.add(family, labels, shape, arguments, Some(bytes_moved)) }
    }

    /// Appends a launch. All launches of operators go through this function.
    ///
    /// # Safety
    /// As [`launch_moving`](Self::launch_moving).
    unsafe fn add<A: KernelArgs>(
        &mut self,
        family: &Family<A>,
        labels: &[Label],
        shape: Option<LaunchShape>,
        arguments: impl Arguments<A>,
        bytes_moved: Option<u64>,
    ) -> Result<()> {
        let kernel = family.instance(labels)?;
        let operator = family.name();
        let shape = shape.ok_or(Error::TooManyBlocks { operator })?;
        let launch = Box::new(Typed { kernel, arguments });
        self.append(kernel.name(), shape, launch, &arguments.uses(), bytes_moved);
        Ok(())
    }

    /// Appends a launch with these uses of values, which moves each of them once if it declares no bytes. (A
    /// function with type parameters would be compiled for each kernel.)
    fn append(
        &mut self,
        kernel: &'static str,
        shape: LaunchShape,
        launch: Box<dyn Launch>,
        uses: &[Use],
        bytes_moved: Option<u64>,
    ) {
        let now = self.steps.len();
        for used in uses {
            let (facts, is_written) = (&mut self.values[used.value.0], used.is_written);
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
        let all = || uses.iter().map(|used| self.bytes(&[used.value])).sum();
        let bytes_moved = bytes_moved.unwrap_or_else(all);
        self.steps.push(Step {
            kernel,
            shape,
            bytes_moved,
            uses: uses
                .iter()
                .map(|used| (used.value, used.is_written))
                .collect(),
            launch,
        });
    }

    /// Returns the program, whose results are `outputs`.
    ///
    /// # Panics
    /// If an output is not computed: a bug of an operator.
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
        // Keep only parameters that a launch reads. Others were only used to prepare parameters.
        let mut parameters = Vec::new();
        for (facts, offset) in self.values.iter_mut().zip(offsets) {
            match (&mut facts.place, facts.life) {
                (Place::Workspace(place), _) => *place = offset,
                (Place::Parameter(index), Some(_)) => {
                    if let Some(tensor) = self.parameters[*index].take() {
                        parameters.push(tensor);
                        *index = parameters.len() - 1;
                    }
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

    fn tensor_map(&mut self, mode: &MapMode, address: *const u8) -> Result<TensorMap> {
        self.stream.device().tensor_map(mode, address)
    }
}

/// A launch of a kernel whose parameters are `A`.
struct Typed<A: 'static, R> {
    kernel: &'static Instance<A>,
    arguments: R,
}

impl<A: KernelArgs, R: Arguments<A>> Launch for Typed<A, R> {
    #[cfg(any(test, feature = "lab"))]
    fn write_arguments(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.arguments.write(f)
    }

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
        // SAFETY: the launch's appender vouched for the arguments, and the caller for the addresses.
        unsafe { stream.launch(self.kernel, shape, arguments) }
    }
}
