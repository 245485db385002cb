//! Programs: lists of launches that are made once and run any number of times.
//!
//! A program is for given shapes, an element type, a device and options. Making it chooses: kernels, tiles, launch
//! shapes, the places of intermediate values. Running it only launches.
//!
//! A launch names the *values* that it reads and writes: inputs, which every run is given; parameters, tensors that
//! are known when the program is made; intermediate values; outputs. From the launches follows when each intermediate
//! value lives, and from that its place in the *workspace*, one allocation in which values that never live at the same
//! time share bytes. All launches of a run are on one stream, so none overwrites what an earlier one still reads.
//!
//! A program holds neither stream nor workspace. Any number of threads may run it, each with a workspace of its own.

mod arguments;
mod builder;
mod memory;
mod prepared;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use arguments::Arguments;
pub(crate) use builder::ProgramBuilder;
pub(crate) use prepared::PreparedParameters;

use crate::device::{DType, LaunchShape, Reading, Stream, Tensor};
use crate::error::Result;

/// The handle of a value, of use with the program that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value(usize);

/// What a program knows of a value.
#[derive(Debug)]
struct ValueFacts {
    shape: Box<[usize]>,
    dtype: DType,
    bytes: u64,
    place: Place,
    /// The first and the last step that use it.
    life: Option<[usize; 2]>,
}

/// Where a value is when the program runs.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In this one of the run's inputs.
    Input(usize),
    /// In this one of the run's outputs.
    Output(usize),
    /// In this one of the program's parameters.
    Parameter(usize),
    /// In the workspace, from this byte on.
    Workspace(u64),
}

/// A list of launches, with all that they need but the inputs, the outputs and a workspace.
#[derive(Debug)]
pub(crate) struct Program {
    values: Box<[ValueFacts]>,
    inputs: Box<[Value]>,
    outputs: Box<[Value]>,
    parameters: Box<[Tensor]>,
    steps: Box<[Step]>,
    workspace_bytes: u64,
}

/// One launch of a [`Program`].
pub(crate) struct Step {
    /// The kernel's symbol.
    pub(crate) kernel: &'static str,
    /// Grid, block and shared memory.
    pub(crate) shape: LaunchShape,
    /// Bytes that the kernel must at least read and write in global memory, by its own account.
    pub(crate) bytes_moved: u64,
    values: Box<[Value]>,
    launch: Box<dyn Launch>,
}

/// A launch whose kernel was a type where it was appended.
trait Launch: Send + Sync {
    /// Makes the kernel ready.
    fn load(&self, stream: &Stream, shape: &LaunchShape) -> Result<()>;

    /// Launches it.
    ///
    /// # Safety
    /// The addresses are those of the program's values: each has the bytes that its shape and element type take, what
    /// is read has been written in the stream's order, and none overlaps another while both live.
    unsafe fn launch(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        addresses: &Addresses<'_>,
    ) -> Result<()>;
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("kernel", &self.kernel)
            .field("shape", &self.shape)
            .field("bytes_moved", &self.bytes_moved)
            .finish_non_exhaustive()
    }
}

/// The addresses of values in a run.
pub(crate) struct Addresses<'a> {
    values: &'a [ValueFacts],
    inputs: &'a [Reading<'a>],
    parameters: &'a [Reading<'a>],
    outputs: &'a [*mut u8],
    intermediates: Intermediates,
}

/// Where the intermediate values of a run are.
enum Intermediates {
    /// At their places in a workspace that starts here.
    Packed(*mut u8),
    /// In an allocation each, by value, for as long as they live.
    Apart(Vec<Option<Tensor>>),
}

impl Addresses<'_> {
    /// Where a value is; null for one without elements.
    fn of(&self, value: Value) -> *mut u8 {
        let facts = &self.values[value.0];
        match (facts.place, &self.intermediates) {
            _ if facts.bytes == 0 => std::ptr::null_mut(),
            (Place::Input(index), _) => self.inputs[index].pointer::<u8>().cast_mut(),
            (Place::Parameter(index), _) => self.parameters[index].pointer::<u8>().cast_mut(),
            (Place::Output(index), _) => self.outputs[index],
            (Place::Workspace(offset), Intermediates::Packed(start)) => {
                start.wrapping_add(offset as usize)
            }
            (Place::Workspace(_), Intermediates::Apart(tensors)) => tensors[value.0]
                .as_ref()
                .map_or(std::ptr::null_mut(), Tensor::output),
        }
    }
}

impl Program {
    /// The launches, in their order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Bytes that the intermediate values of a run take together.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// A workspace for runs on `stream`.
    pub(crate) fn workspace(&self, stream: &Stream) -> Result<Tensor> {
        let word = DType::F32.size() as u64;
        let words = usize::try_from(self.workspace_bytes.div_ceil(word)).unwrap_or(usize::MAX);
        Tensor::uninit(stream, &[words], DType::F32)
    }

    /// Makes everything ready for runs on `stream`: kernels are loaded, and the stream waits for what other streams did
    /// to the parameters.
    pub(crate) fn load(&self, operator: &'static str, stream: &Stream) -> Result<()> {
        for parameter in &self.parameters {
            parameter.read_on(operator, "parameter", stream)?;
        }
        for step in &self.steps {
            step.launch.load(stream, &step.shape)?;
        }
        Ok(())
    }

    /// Queues the launches on `stream`, to which outputs and workspace belong.
    ///
    /// # Errors
    /// `ShapeMismatch` and `DTypeMismatch` for tensors that the program was not made for, `DeviceMismatch`, `TensorInUse`;
    /// what a launch may run into.
    pub(crate) fn run(
        &self,
        operator: &'static str,
        stream: &Stream,
        inputs: &[&Tensor],
        outputs: &mut [&mut Tensor],
        workspace: &mut Tensor,
    ) -> Result<()> {
        self.expect(operator, "input", &self.inputs, inputs.iter().copied())?;
        let written = outputs.iter().map(|output| &**output);
        self.expect(operator, "output", &self.outputs, written)?;
        for output in &mut *outputs {
            output.rewrite(operator, "output", stream)?;
        }
        assert!(
            workspace.bytes() >= self.workspace_bytes,
            "the workspace is this program's"
        );
        workspace.rewrite(operator, "workspace", stream)?;
        let packed = Intermediates::Packed(workspace.output());
        let outputs: Vec<&Tensor> = outputs.iter().map(|output| &**output).collect();
        self.launch(operator, stream, inputs, &outputs, packed)
    }

    /// One run with fresh memory.
    ///
    /// In the emulator every intermediate value has an allocation of its own, so that accesses beyond its end and reads
    /// of what nothing wrote are found.
    pub(crate) fn run_once(
        &self,
        operator: &'static str,
        stream: &Stream,
        inputs: &[&Tensor],
    ) -> Result<Vec<Tensor>> {
        let output = |value: &Value| {
            let facts = &self.values[value.0];
            Tensor::uninit(stream, &facts.shape, facts.dtype)
        };
        let mut outputs: Vec<Tensor> = self.outputs.iter().map(output).collect::<Result<_>>()?;
        if stream.device().is_emulator() {
            self.expect(operator, "input", &self.inputs, inputs.iter().copied())?;
            let apart = Intermediates::Apart(self.values.iter().map(|_| None).collect());
            let written: Vec<&Tensor> = outputs.iter().collect();
            self.launch(operator, stream, inputs, &written, apart)?;
        } else {
            let mut workspace = self.workspace(stream)?;
            let mut written: Vec<&mut Tensor> = outputs.iter_mut().collect();
            self.run(operator, stream, inputs, &mut written, &mut workspace)?;
        }
        Ok(outputs)
    }

    /// Refuses tensors that the program was not made for.
    fn expect<'a>(
        &self,
        operator: &'static str,
        argument: &'static str,
        values: &[Value],
        tensors: impl Iterator<Item = &'a Tensor>,
    ) -> Result<()> {
        for (value, tensor) in values.iter().zip(tensors) {
            let facts = &self.values[value.0];
            tensor.must_be(&facts.shape, facts.dtype, operator, argument)?;
        }
        Ok(())
    }

    /// Queues the launches. Inputs and outputs are as the program expects them; the outputs are `stream`'s own and
    /// nobody else's, and so is a workspace.
    fn launch(
        &self,
        operator: &'static str,
        stream: &Stream,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
        intermediates: Intermediates,
    ) -> Result<()> {
        assert_eq!(
            (inputs.len(), outputs.len()),
            (self.inputs.len(), self.outputs.len()),
            "a run has the program's inputs and outputs"
        );
        // Open until the last launch is queued.
        let inputs = inputs.iter();
        let inputs = inputs.map(|tensor| tensor.read_on(operator, "input", stream));
        let inputs: Vec<Reading<'_>> = inputs.collect::<Result<_>>()?;
        let parameters = self.parameters.iter();
        let parameters = parameters.map(|tensor| tensor.read_on(operator, "parameter", stream));
        let parameters: Vec<Reading<'_>> = parameters.collect::<Result<_>>()?;
        let outputs: Vec<*mut u8> = outputs.iter().map(|tensor| tensor.output()).collect();
        let mut addresses = Addresses {
            values: &self.values,
            inputs: &inputs,
            parameters: &parameters,
            outputs: &outputs,
            intermediates,
        };
        for (index, step) in self.steps.iter().enumerate() {
            self.begin(step, stream, &mut addresses.intermediates)?;
            // SAFETY: inputs and outputs have the shapes and element types of their values, parameters are those that
            // the program was made with; the workspace has `workspace_bytes`, in which `pack` gave each value its bytes
            // and no two that live together the same; inputs and parameters are open for reading on the stream, and
            // the builder saw that everything else is written by an earlier step before it is read.
            unsafe { step.launch.launch(stream, step.shape, &addresses)? };
            stream.moved(step.bytes_moved);
            self.end(index, step, &mut addresses.intermediates);
        }
        Ok(())
    }

    /// Allocates what this step is the first to use, where values are apart.
    fn begin(&self, step: &Step, stream: &Stream, intermediates: &mut Intermediates) -> Result<()> {
        if let Intermediates::Apart(tensors) = intermediates {
            for &value in &step.values {
                let facts = &self.values[value.0];
                if matches!(facts.place, Place::Workspace(_)) && tensors[value.0].is_none() {
                    tensors[value.0] = Some(Tensor::uninit(stream, &facts.shape, facts.dtype)?);
                }
            }
        }
        Ok(())
    }

    /// Frees what this step is the last to use, where values are apart.
    fn end(&self, index: usize, step: &Step, intermediates: &mut Intermediates) {
        if let Intermediates::Apart(tensors) = intermediates {
            for &Value(value) in &step.values {
                if (self.values[value].life).is_some_and(|[_, last]| last == index) {
                    tensors[value] = None;
                }
            }
        }
    }
}
