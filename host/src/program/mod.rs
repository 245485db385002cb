//! Programs: lists of launches, built once and run any number of times.
//!
//! A program is for given shapes, an element type, a device and options. Building it chooses kernels, tiles,
//! launch shapes, and the offsets of intermediate values. Running it only launches.
//!
//! A launch names the *values* that it reads and writes: inputs and outputs of the run; parameters, which are
//! the same tensors in every run; and intermediate values. Parameters that differ from run to run are inputs.
//! The launches determine the live range of each intermediate value, and thus its offset in the *workspace*,
//! one allocation in which values with disjoint live ranges share bytes. All launches of a run are on one
//! stream, so none overwrites a value that an earlier launch still reads.
//!
//! A program has neither a stream nor a workspace. Any number of threads may run it, each with its own
//! workspace.

mod arguments;
mod builder;
mod concurrent;
mod memory;
mod over;
mod prepared;
mod ready;
#[cfg(test)]
mod tests;

use std::fmt;

use op_spec::Layout;

pub(crate) use arguments::{Arguments, MapOf};
pub(crate) use builder::{ProgramBuilder, channels_last};
pub(crate) use concurrent::other_streams;
pub(crate) use prepared::PreparedParameters;
pub(crate) use ready::Ready;

use crate::device::{DType, LaunchShape, Order, Reading, Stream, Tensor, in_memory};
use crate::error::{At, Result};

/// The handle of a value of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value(usize);

/// The properties of a value.
#[derive(Debug)]
struct ValueFacts {
    shape: Box<[usize]>,
    dtype: DType,
    bytes: u64,
    /// The memory layout.
    order: Order,
    /// The dense NCHW and NHWC copies, once a launch has requested them.
    nchw: Option<Value>,
    nhwc: Option<Value>,
    place: Place,
    /// The first and the last step that use the value.
    life: Option<[usize; 2]>,
}

impl ValueFacts {
    /// The layout of a value that the program computes, which is dense.
    fn layout(&self) -> Layout {
        match self.order {
            Order::Dense => Layout::Nchw,
            Order::Strided { .. } => Layout::Nhwc,
        }
    }
}

/// The location of a value when the program runs.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The run's input of this index.
    Input(usize),
    /// The run's output of this index.
    Output(usize),
    /// The program's parameter of this index. A program that is only explained has none.
    Parameter(usize),
    /// This byte offset in the workspace.
    Workspace(u64),
}

/// A list of launches with their parameters. Runs need inputs, outputs and a workspace.
#[derive(Debug)]
pub(crate) struct Program {
    values: Box<[ValueFacts]>,
    inputs: Box<[Input]>,
    outputs: Box<[Value]>,
    parameters: Box<[Tensor]>,
    steps: Box<[Step]>,
    workspace_bytes: u64,
}

/// An input of every run.
#[derive(Debug)]
struct Input {
    value: Value,
    /// The name in errors; the first input of a graph and an operator's inputs have none.
    name: Option<Box<str>>,
}

impl Input {
    /// Adds the input's name to an error.
    fn named<T>(&self, result: Result<T>) -> Result<T> {
        match &self.name {
            Some(name) => result.map_err(|error| error.of_input(name)),
            None => result,
        }
    }
}

/// One launch of a [`Program`].
pub(crate) struct Step {
    /// The kernel's symbol.
    pub(crate) kernel: &'static str,
    /// Grid, block and shared memory.
    pub(crate) shape: LaunchShape,
    /// A lower bound of the bytes that the kernel reads and writes in global memory, as the operator declares
    /// it.
    pub(crate) bytes_moved: u64,
    /// The values that the launch uses, and whether it writes them.
    uses: Box<[(Value, bool)]>,
    launch: Box<dyn Launch>,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The arguments show the values that are used.
        f.debug_struct("Step")
            .field("kernel", &self.kernel)
            .field("shape", &self.shape)
            .field("bytes_moved", &self.bytes_moved)
            .field("launch", &self.launch)
            .finish()
    }
}

/// A launch with its kernel's type erased.
trait Launch: Send + Sync {
    /// Writes the arguments.
    #[cfg(any(test, feature = "lab"))]
    fn write_arguments(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Loads the kernel.
    fn load(&self, stream: &Stream, shape: &LaunchShape) -> Result<()>;

    /// Launches the kernel.
    ///
    /// # Safety
    /// The addresses are those of the program's values, in their order. Each has the bytes of its shape and
    /// element type. Values that are read have been written in the stream's order. No two values that live at
    /// the same time overlap.
    unsafe fn launch(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        addresses: &[*mut u8],
    ) -> Result<()>;
}

impl fmt::Debug for dyn Launch {
    #[cfg(any(test, feature = "lab"))]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_arguments(f)
    }

    #[cfg(not(any(test, feature = "lab")))]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launch")
    }
}

impl Program {
    /// The launches, in their order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Bytes of the workspace.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Whether some parameters are the same tensors in every run.
    pub(crate) fn keeps_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// Parameters that are the same tensors in every run.
    #[cfg(test)]
    pub(crate) fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// A workspace for runs on `stream`.
    pub(crate) fn workspace(&self, stream: &Stream) -> Result<Tensor> {
        let word = DType::F32.size() as u64;
        let words = usize::try_from(self.workspace_bytes.div_ceil(word)).unwrap_or(usize::MAX);
        Tensor::uninit(stream, &[words], DType::F32)
    }

    /// Loads the kernels, and makes `stream` wait for writes of the parameters on other streams.
    ///
    /// # Errors
    /// `DeviceMismatch`; errors of loading.
    pub(crate) fn make_ready(&self, operator: &'static str, stream: &Stream) -> Result<()> {
        // A loaded program makes no driver call that would notice a lost device.
        stream.must_serve()?;
        open(&self.parameters, (operator, "parameter"), stream)?;
        for step in &self.steps {
            step.launch.load(stream, &step.shape)?;
        }
        Ok(())
    }

    /// Records the reads of the parameters by all earlier work of `stream`.
    pub(crate) fn note_earlier_reads(&self, stream: &Stream) {
        for parameter in &self.parameters {
            parameter.note_earlier_reads(stream);
        }
    }

    /// Runs the program once with fresh memory.
    ///
    /// In the emulator every intermediate value has its own allocation, so that out-of-bounds accesses and
    /// reads of uninitialised bytes are found.
    pub(crate) fn run_once(
        &self,
        operator: &'static str,
        stream: &Stream,
        inputs: &[&Tensor],
    ) -> Result<Vec<Tensor>> {
        self.expect_inputs(operator, inputs)?;
        let output = |value: &Value| {
            let facts = &self.values[value.0];
            let layout = facts.layout();
            Tensor::uninit(stream, &in_memory(&facts.shape, layout), facts.dtype)?.laid_out(layout)
        };
        let outputs: Vec<Tensor> = self.outputs.iter().map(output).collect::<Result<_>>()?;
        let workspace = match stream.device().is_emulator() {
            true => None,
            false => Some(self.workspace(stream)?),
        };
        let written: Vec<&Tensor> = outputs.iter().collect();
        // The reads stay open until the last launch is queued.
        let inputs = self.open_inputs(operator, inputs, stream)?;
        let parameters = open(&self.parameters, (operator, "parameter"), stream)?;
        self.launch(
            stream,
            &inputs,
            &parameters,
            &written,
            workspace.as_ref(),
            &mut || Ok(()),
        )?;
        Ok(outputs)
    }

    /// Refuses inputs that do not match the program.
    fn expect_inputs(&self, operator: &'static str, inputs: &[&Tensor]) -> Result<()> {
        for (input, tensor) in self.inputs.iter().zip(inputs) {
            let facts = &self.values[input.value.0];
            let ValueFacts {
                shape,
                dtype,
                order,
                ..
            } = facts;
            input.named(expect_input(operator, shape, *dtype, order, tensor))?;
        }
        Ok(())
    }

    /// Prepares reads of a run's inputs by later work of `stream`.
    fn open_inputs<'a>(
        &self,
        operator: &'static str,
        inputs: &[&'a Tensor],
        stream: &Stream,
    ) -> Result<Vec<Reading<'a>>> {
        let inputs = self.inputs.iter().zip(inputs);
        let open = |(input, tensor): (&Input, &&'a Tensor)| {
            input.named(tensor.read_on((operator, "input"), stream))
        };
        inputs.map(open).collect()
    }

    /// Refuses outputs that do not match the program.
    fn expect_outputs<'a>(
        &self,
        operator: &'static str,
        outputs: impl Iterator<Item = &'a Tensor>,
    ) -> Result<()> {
        for (value, tensor) in self.outputs.iter().zip(outputs) {
            let ValueFacts {
                shape,
                dtype,
                order,
                ..
            } = &self.values[value.0];
            expect_output(operator, shape, *dtype, order, tensor)?;
        }
        Ok(())
    }

    /// Queues the launches, and calls `before` before each. Inputs and outputs match the program; inputs and
    /// parameters were written in the order of `stream`; outputs and workspace belong to `stream`, and no
    /// other work uses them. Without a workspace, every intermediate value has its own allocation during its
    /// live range.
    fn launch(
        &self,
        stream: &Stream,
        inputs: &[Reading<'_>],
        parameters: &[Reading<'_>],
        outputs: &[&Tensor],
        workspace: Option<&Tensor>,
        before: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        assert_eq!(
            (inputs.len(), outputs.len()),
            (self.inputs.len(), self.outputs.len()),
            "a run has the program's inputs and outputs"
        );
        let address = |facts: &ValueFacts| match (facts.place, workspace) {
            _ if facts.bytes == 0 || facts.life.is_none() => std::ptr::null_mut(),
            (Place::Input(index), _) => inputs[index].pointer::<u8>().cast_mut(),
            (Place::Parameter(index), _) => parameters[index].pointer::<u8>().cast_mut(),
            (Place::Output(index), _) => outputs[index].output(),
            (Place::Workspace(offset), Some(workspace)) => {
                workspace.output::<u8>().wrapping_add(offset as usize)
            }
            (Place::Workspace(_), None) => std::ptr::null_mut(),
        };
        let mut addresses: Vec<*mut u8> = self.values.iter().map(address).collect();
        let mut apart = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            if workspace.is_none() {
                apart.retain(|&(last, _)| last >= index);
                for (facts, address) in self.values.iter().zip(&mut addresses) {
                    let is_own = matches!(facts.place, Place::Workspace(_)) && facts.bytes > 0;
                    if let Some([born, last]) = facts.life
                        && (is_own && born == index)
                    {
                        let tensor = Tensor::uninit(stream, &facts.shape, facts.dtype)?;
                        *address = tensor.output();
                        apart.push((last, tensor));
                    }
                }
            }
            before()?;
            // SAFETY: inputs and outputs have the shapes and element types of their values, and parameters
            // are those of the program's construction. The workspace has `workspace_bytes`; `pack` gave each
            // value its bytes, distinct for values that live at the same time. Inputs and parameters are open
            // for reading on the stream. The builder checked that an earlier step writes everything else
            // before it is read.
            unsafe { step.launch.launch(stream, step.shape, &addresses)? };
            stream.moved(step.bytes_moved);
        }
        Ok(())
    }
}

/// Refuses a tensor whose shape, element type or order is not the input's.
pub(crate) fn expect_input(
    operator: &'static str,
    shape: &[usize],
    dtype: DType,
    order: &Order,
    tensor: &Tensor,
) -> Result<()> {
    tensor.must_be(shape, dtype, (operator, "input"))?;
    tensor.must_lie(order, (operator, "input"))
}

/// Refuses a tensor that cannot hold an output of this shape, element type and order.
pub(crate) fn expect_output(
    operator: &'static str,
    shape: &[usize],
    dtype: DType,
    order: &Order,
    tensor: &Tensor,
) -> Result<()> {
    tensor.must_be(shape, dtype, (operator, "output"))?;
    match order {
        Order::Dense => tensor.must_be_aligned((operator, "output")),
        Order::Strided { .. } => tensor.must_lie(order, (operator, "output")),
    }
}

/// Prepares reads of tensors by later work of `stream`.
fn open<'a>(
    tensors: impl IntoIterator<Item = &'a Tensor>,
    at: At,
    stream: &Stream,
) -> Result<Vec<Reading<'a>>> {
    let tensors = tensors.into_iter();
    tensors.map(|tensor| tensor.read_on(at, stream)).collect()
}
