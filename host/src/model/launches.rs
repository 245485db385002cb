//! Runs over memory of others, for callers that have an allocator and streams of their own.

use std::fmt;
use std::sync::Arc;

use op_spec::graph::GraphProblem;

use super::inputs::Inputs;
use super::{Explanation, Model, Options};
use crate::device::raw::RawPointer;
use crate::device::{DType, Order, Stream, Tensor};
use crate::error::{InputsError, Result};
use crate::program::Program;
use crate::sync::{Mutex, lock, unlocked};

const OPERATOR: &str = "launches";

/// What a model launches on a GPU for inputs of one shape, with neither a stream nor memory for what it
/// computes: each run is given both, as addresses. Any number of threads may run it at a time, on any streams
/// of the device, also in captures.
///
/// This is what bindings to other libraries stand on, whose tensors, allocators and streams it takes as they
/// are; who has none of these is better served by a [`Plan`](super::Plan). A run costs the host little more
/// than its launches.
///
/// Made by [`Model::launches`].
///
/// # Examples
/// ```
/// use convfuse::graph::presets::KernelBench79;
/// use convfuse::{Device, Model, Options, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
/// let x = Tensor::from_array(&stream, &data::fill(1, (2, 3, 5, 6, 7)))?;
/// if stream.device().is_gpu() {
///     let launches = model.launches(&stream, &x, &Options::default())?;
///     let y = Tensor::zeros(&stream, launches.output_shape(), launches.dtype())?;
///     let words = launches.workspace_bytes().div_ceil(4) as usize;
///     let workspace = Tensor::zeros(&stream, &[words], launches.dtype())?;
///     let (inputs, workspace) = ([x.as_raw()?], workspace.as_raw()?);
///     // SAFETY: all memory is of the stream's own tensors, which nobody else has seen.
///     unsafe { launches.run(&stream, &inputs, y.as_raw()?, workspace)? };
///     println!("{}", y.to_array::<f32>()?.sum());
/// }
/// # Ok::<(), convfuse::Error>(())
/// ```
pub struct Launches {
    model: Model,
    options: Options,
    problem: GraphProblem,
    /// Those of all inputs, the first one's first.
    orders: Vec<Order>,
    program: Arc<Program>,
    /// The streams that it ran on, each once.
    streams: Mutex<Vec<Stream>>,
}

impl Model {
    /// Prepares runs on inputs of the shape of these that lie in memory as these do, over memory that each
    /// run is given. Kernels are chosen and loaded, parameters are put into the forms that they take, and the
    /// host waits until that is done: from then on all streams of the device may run it, also for the first
    /// time while they are in capture.
    ///
    /// `stream` is the one that the caller is about to run it on.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) where the device is no GPU;
    /// [`InCapture`](crate::Error::InCapture) if `stream` or the model's stream is in capture; those of
    /// [`plan_for`](Self::plan_for).
    pub fn launches<'a>(
        &self,
        stream: &Stream,
        inputs: impl Into<Inputs<&'a Tensor>>,
        options: &Options,
    ) -> Result<Launches> {
        if !stream.device().is_gpu() {
            let what = "launches over memory of others; execute a plan instead";
            return Err(stream.device().without(what));
        }
        for stream in [stream, self.stream()] {
            stream.must_not_capture("prepare a run")?;
        }
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        let orders = self.orders(OPERATOR, &inputs, stream)?;
        self.device()
            .must_be(stream.device(), (OPERATOR, "the model"))?;
        let problem = self.graph().problem(inputs[0].shape())?;
        let program = self.program(inputs[0].shape(), &orders, options)?;
        program.make_ready(OPERATOR, self.stream())?;
        self.stream().synchronize()?;
        Ok(Launches {
            model: self.clone(),
            options: options.clone(),
            problem,
            orders,
            program,
            streams: Mutex::default(),
        })
    }
}

impl Launches {
    /// Queues one run on `stream`: from `inputs`, the first one and behind it the further ones in the order
    /// of [`Graph::inputs`](crate::graph::Graph::inputs), to `output`.
    ///
    /// The stream is remembered until this is dropped. Dropping lets the model's stream wait for what these
    /// streams were given by then, so that prepared parameters are not given back before; a graph that was
    /// captured of a run needs this for as long as it is replayed.
    ///
    /// # Errors
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch) for a stream of another device;
    /// [`InputsError::Count`]; what a launch may run into.
    ///
    /// # Safety
    /// `inputs` are addresses of the elements with all indices 0 of tensors of the shapes, strides and
    /// element type that this was made for, from multiples of 16 bytes where those were that it was made
    /// with. `output` has [`output_shape`](Self::output_shape) densely, from a multiple of 16 bytes on;
    /// `workspace` has [`workspace_bytes`](Self::workspace_bytes) from a multiple of 256 on. All are memory
    /// in the primary context of the stream's device; output and workspace overlap nothing else. What is read
    /// was written, and what is written is used, in the order of `stream`. The stream outlives this, and so
    /// does memory that was lent for the model's parameters.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        inputs: &[RawPointer],
        output: RawPointer,
        workspace: RawPointer,
    ) -> Result<()> {
        self.model
            .device()
            .must_be(stream.device(), (OPERATOR, "the stream"))?;
        if inputs.len() != self.orders.len() {
            let (actual, expected) = (inputs.len(), self.orders.len());
            return Err(InputsError::Count {
                operator: OPERATOR,
                actual,
                expected,
            }
            .into());
        }
        self.remember(stream);
        // SAFETY: the caller's promise; parameters are in order since this was made, and stay as the model's.
        unsafe { self.program.launch_over(stream, inputs, output, workspace) }
    }

    /// Bytes that a run needs beside inputs and output.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.program.workspace_bytes()
    }

    /// The shape of what it computes.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        self.problem.output_shape()
    }

    /// The element type of inputs and output.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.model.dtype()
    }

    /// What is launched, and why.
    ///
    /// # Errors
    /// As [`Model::explain`].
    pub fn explain(&self) -> Result<Explanation> {
        let input = self.problem.input_shape();
        self.model
            .explain_orders(input, &self.orders, &self.options)
    }

    fn remember(&self, stream: &Stream) {
        let mut known = lock(&self.streams);
        if !known.contains(stream) {
            known.push(stream.clone());
        }
    }
}

impl fmt::Debug for Launches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, output) = (self.problem.input_shape(), self.output_shape());
        write!(f, "Launches({:?}, {input:?} to {output:?})", self.model)
    }
}

impl Drop for Launches {
    fn drop(&mut self) {
        for stream in unlocked(&mut self.streams) {
            self.program.note_earlier_reads(stream);
        }
    }
}
