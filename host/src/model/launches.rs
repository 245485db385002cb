//! Runs over the caller's memory, for callers that have their own allocator and streams.

use std::fmt;
use std::sync::Arc;

use op_spec::Layout;
use op_spec::graph::{Graph, GraphProblem};

#[cfg(doc)]
use super::Model;
use super::inputs::{Inputs, orders};
use super::programs::kernel_dtypes;
use super::{Explanation, Options};
use crate::device::raw::RawPointer;
use crate::device::{DType, Device, Order, Stream, Tensor};
use crate::error::{Error, InputsError, Result};
use crate::lowering::{self, Query, Source, output_layout};
use crate::parameters::{ParametersError, named};
use crate::program::Program;
use crate::sync::{Mutex, lock, unlocked};
use crate::tensor_file::given::check_shapes;

mod backend;
mod captures;
mod of_model;
mod recorded;

use backend::Backend;
use captures::OtherStreams;
pub use recorded::Recorded;

const OPERATOR: &str = "launches";

/// The least number of kernels for which a run in a capture uses several streams.
const LEAST_SIDE_BY_SIDE: usize = 8;

/// The launches of a graph on a GPU for inputs of one shape, without a stream or memory: each run gets both,
/// as addresses. Any number of threads may run them concurrently, on any streams of the device, also in
/// captures. On the CPU device a run executes the CPU backend, over memory of the process.
///
/// This type is for bindings to other libraries: runs use the library's tensors, allocator and streams
/// directly. A program without its own allocator should use a [`Plan`](super::Plan). A run costs the host
/// little more than its launches.
///
/// There are two sources of parameters:
///
/// | made by | parameters | prepared forms, such as filters in operand layout |
/// |---|---|---|
/// | [`Model::launches`] | the model's | made once, and kept |
/// | [`Launches::functional`] | arguments of each run | made by the run's first launches, in its workspace |
///
/// Outputs have the same bits either way.
///
/// # Examples
/// ```
/// use convfuse::graph::presets::KernelBench79;
/// use convfuse::model::Launches;
/// use convfuse::{Device, Options, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let chain = KernelBench79::default().chain()?;
/// let x = Tensor::from_array(&stream, &data::fill(1, (2, 3, 5, 6, 7)))?;
/// let tensor = |shape: &[usize]| Tensor::from_array(&stream, &data::signed(2, shape));
/// let parameters = chain.parameters().iter().map(|parameter| tensor(&parameter.shape));
/// let parameters = parameters.collect::<convfuse::Result<Vec<_>>>()?;
/// let launches = Launches::functional(&stream, &chain, &x, &parameters, &Options::default())?;
/// if stream.device().is_gpu() {
///     let y = Tensor::zeros(&stream, launches.output_shape(), launches.dtype())?;
///     let words = launches.workspace_bytes().div_ceil(4) as usize;
///     let workspace = Tensor::zeros(&stream, &[words], launches.dtype())?;
///     let addresses = parameters.iter().map(Tensor::as_raw).collect::<convfuse::Result<Vec<_>>>()?;
///     let (inputs, outputs, workspace) = ([x.as_raw()?], [y.as_raw()?], workspace.as_raw()?);
///     // SAFETY: all memory is of the stream's own tensors, which nobody else has seen.
///     unsafe { launches.run(&stream, &inputs, &addresses, &outputs, workspace)? };
///     println!("{}", y.to_array::<f32>()?.sum());
/// }
/// # Ok::<(), convfuse::Error>(())
/// ```
pub struct Launches {
    device: Device,
    graph: Graph,
    dtype: DType,
    options: Options,
    problem: GraphProblem,
    /// The orders of all inputs, the first input's first.
    orders: Vec<Order>,
    /// The element types and orders of the parameters passed to each run.
    given: Vec<(DType, Order)>,
    /// The element types in which kernels read the parameters.
    read_as: Vec<DType>,
    /// The indices in the graph's table of the parameters that each run renews.
    renewed: Vec<usize>,
    runs: Runs,
    /// The streams that runs used, each once; recorded only if parameters are kept.
    streams: Mutex<Vec<Stream>>,
    others: OtherStreams,
}

/// The implementation of a run.
enum Runs {
    Kernels(Arc<Program>),
    Backend(Backend),
}

/// Refuses devices without launches, and streams in capture.
fn must_prepare(streams: &[&Stream]) -> Result<()> {
    for stream in streams {
        if !stream.device().is_gpu() {
            let what = "launches over memory of others; execute a plan instead";
            return Err(stream.device().without(what));
        }
        stream.must_not_capture("prepare a run")?;
    }
    Ok(())
}

impl Launches {
    /// Prepares runs of a graph that get their parameters as arguments: one for each entry of the graph's
    /// [table](Graph::parameters), in its order. Nothing of the parameters is kept: a run reads their values
    /// at that time, in the order of its stream.
    ///
    /// Kernels are chosen and loaded for inputs and parameters of the shapes and memory layouts of these
    /// tensors, whose elements are not read. All inputs have one element type, which is also the output's.
    /// Parameters may have any type. Each run rounds them to the inputs' type, except those of norms, which
    /// are read in f32. A parameter that is not dense, row-major and aligned to 16 bytes is copied in each
    /// run, except channels-last filters that a convolution reads in place.
    ///
    /// `stream` is the stream that the caller is about to run it on. Other streams of the device may run it
    /// too, also for the first time during a capture.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) in the emulator; [`InCapture`](crate::Error::InCapture) if
    /// `stream` is in capture; [`ParametersError::Count`] and [`ParametersError::Shapes`];
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch); the errors of [`Model::plan_for`].
    pub fn functional<'a>(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        inputs: impl Into<Inputs<&'a Tensor>>,
        parameters: &[Tensor],
        options: &Options,
    ) -> Result<Launches> {
        if !stream.device().is_cpu() {
            must_prepare(&[stream])?;
        }
        Launches::given(stream, graph.as_ref(), inputs.into(), parameters, options)
    }

    /// The implementation of [`functional`](Self::functional) for any device that runs kernels.
    fn given(
        stream: &Stream,
        graph: &Graph,
        inputs: Inputs<&Tensor>,
        parameters: &[Tensor],
        options: &Options,
    ) -> Result<Launches> {
        let device = stream.device();
        let inputs = inputs.arranged(OPERATOR, graph.inputs())?;
        let dtype = inputs[0].dtype();
        let orders = orders(OPERATOR, &inputs, graph, dtype, stream)?;
        let table = graph.parameters();
        if parameters.len() != table.len() {
            let (actual, expected) = (parameters.len(), table.len());
            return Err(ParametersError::Count { actual, expected }.into());
        }
        check_shapes(named(table, parameters.iter().map(Tensor::shape)))?;
        let given = parameters.iter().map(|tensor| {
            tensor.same_device((OPERATOR, "a parameter"), stream)?;
            Ok((tensor.dtype(), tensor.order()?))
        });
        let given = given.collect::<Result<Vec<_>>>()?;
        let stored: Vec<DType> = given.iter().map(|(dtype, _)| *dtype).collect();
        let read_as = kernel_dtypes(graph, &stored, dtype);
        let problem = graph.problem(inputs[0].shape())?;
        let runs = if device.is_cpu() {
            Runs::Backend(Backend::of(graph, &inputs, parameters, dtype))
        } else {
            let properties = device.properties();
            let query = Query {
                graph,
                problem: &problem,
                dtype,
                orders: &orders,
                given: &given,
                read_as: &read_as,
                properties: &properties,
                options,
            };
            let mut chosen = lowering::choose(query)?;
            let program = lowering::program_of(query, device, Source::Given, &mut chosen)?;
            program.make_ready(OPERATOR, stream)?;
            Runs::Kernels(Arc::new(program))
        };
        Ok(Launches {
            device: device.clone(),
            graph: graph.clone(),
            dtype,
            options: options.clone(),
            given,
            read_as,
            renewed: lowering::renewed_parameters(graph, &problem),
            runs,
            streams: Mutex::default(),
            others: OtherStreams::default(),
            problem,
            orders,
        })
    }

    /// Queues one run on `stream`.
    ///
    /// - `inputs`: the first input, then the further ones in the order of
    ///   [`Graph::inputs`](crate::graph::Graph::inputs);
    /// - `parameters`: in the order of [`Graph::parameters`]; none if a [model](Model::launches) keeps them;
    /// - `outputs`: the graph's outputs, then the new value of each of the [`renewed`](Self::renewed)
    ///   parameters.
    ///
    /// On a GPU it allocates nothing, waits for nothing, and calls nothing that CUDA graph capture forbids.
    /// On the CPU device the run is complete when this returns.
    ///
    /// If a model keeps the parameters, the stream is remembered until `self` is dropped. Dropping makes the
    /// model's stream wait for the work that these streams have by then, before prepared parameters are
    /// freed. Keep `self` for as long as a graph that captured a run is replayed.
    ///
    /// # Errors
    /// [`DeviceMismatch`](crate::Error::DeviceMismatch) for a stream of another device;
    /// [`InputsError::Count`]; [`InputsError::Outputs`]; [`ParametersError::Count`]; errors of launches.
    ///
    /// # Safety
    /// - `inputs` and `parameters` are the addresses of the elements with all indices 0. Their tensors have
    ///   the shapes, strides and element types that `self` was made for. An address is a multiple of 16
    ///   bytes if the tensor that `self` was made with starts at such a multiple.
    /// - The first output is dense, with [`output_shape`](Self::output_shape) in
    ///   [`output_layout`](Self::output_layout), and starts at a multiple of 16 bytes. The other outputs are
    ///   dense f32, with the shapes of their parameters; they may be these parameters if their layout is the
    ///   same.
    /// - `workspace` has [`workspace_bytes`](Self::workspace_bytes), from a multiple of 256 on.
    /// - All memory is in the primary context of the stream's device. On the CPU device it is in this
    ///   process, with elements at multiples of their size. Outputs and workspace overlap nothing else.
    /// - The inputs' writes come before the run, and uses of the outputs after it, in the order of `stream`.
    /// - The stream, and memory lent for a model's parameters, outlive `self`.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        inputs: &[RawPointer],
        parameters: &[RawPointer],
        outputs: &[RawPointer],
        workspace: RawPointer,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.queue(stream, None, [inputs, parameters], outputs, workspace) }
    }

    /// Queues one run on `stream`. A recording is for launches on another stream, and uses others beside the
    /// first.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn queue(
        &self,
        stream: &Stream,
        recording: Option<(&Stream, &[Stream])>,
        [inputs, parameters]: [&[RawPointer]; 2],
        outputs: &[RawPointer],
        workspace: RawPointer,
    ) -> Result<()> {
        self.device
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
        if parameters.len() != self.given.len() {
            let (actual, expected) = (parameters.len(), self.given.len());
            return Err(ParametersError::Count { actual, expected }.into());
        }
        let expected = self.graph.outputs().len() + self.renewed.len();
        if outputs.len() != expected {
            let (operator, actual) = (OPERATOR, outputs.len());
            return Err(InputsError::Outputs {
                operator,
                actual,
                expected,
            }
            .into());
        }
        match &self.runs {
            Runs::Kernels(program) => {
                let (reader, others) = recording.unwrap_or((stream, &[]));
                if program.keeps_parameters() {
                    self.remember(reader);
                }
                let is_captured =
                    program.steps().len() >= LEAST_SIDE_BY_SIDE && stream.is_capturing()?;
                let mut taken = match others.is_empty() && is_captured {
                    true => self.others.take(stream)?,
                    false => Vec::new(),
                };
                let others = if taken.is_empty() { others } else { &taken };
                // SAFETY: the caller's promise; kept parameters are ready since `self` was made, and the
                // program keeps them.
                let queued = unsafe {
                    program.launch_over(stream, others, [inputs, parameters], outputs, workspace)
                };
                self.others.give_back(&mut taken);
                queued
            }
            // SAFETY: the caller's promise.
            Runs::Backend(backend) => unsafe {
                self.run_on_cpu(stream, backend, [inputs, parameters], outputs)
            },
        }
    }

    /// Returns the indices, in [`Graph::parameters`], of the parameters that each run renews: the running
    /// statistics of batch norms in training. Parameters that a model keeps are not renewed.
    #[must_use]
    pub fn renewed(&self) -> &[usize] {
        &self.renewed
    }

    /// Returns the number of kernels that a run launches; zero on the CPU device.
    #[must_use]
    pub fn kernels(&self) -> usize {
        match &self.runs {
            Runs::Kernels(program) => program.steps().len(),
            Runs::Backend(_) => 0,
        }
    }

    /// Returns the bytes that a run needs besides inputs, parameters and outputs.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        match &self.runs {
            Runs::Kernels(program) => program.workspace_bytes(),
            Runs::Backend(_) => 0,
        }
    }

    /// Returns the shape of the first output.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        self.problem.output_shape()
    }

    /// Returns the layout in which the first output is dense.
    #[must_use]
    pub fn output_layout(&self) -> Layout {
        self.layout_of_output(0)
    }

    fn layout_of_output(&self, output: usize) -> Layout {
        output_layout(&self.problem, output, &self.orders[0], &self.options)
    }

    /// Returns the shapes of the graph's outputs, with the layouts in which they are dense, in the order of
    /// [`Graph::outputs`].
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = (&[usize], Layout)> {
        let shapes = self.problem.output_shapes().enumerate();
        shapes.map(|(output, shape)| (shape, self.layout_of_output(output)))
    }

    /// The element type of inputs and output.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Explains the launches, including those that prepare parameters in each run.
    ///
    /// # Errors
    /// As [`Model::explain`].
    pub fn explain(&self) -> Result<Explanation> {
        let Runs::Kernels(program) = &self.runs else {
            return Err(Error::no_kernels_on_cpu(&self.graph));
        };
        let query = Query {
            graph: &self.graph,
            problem: &self.problem,
            dtype: self.dtype,
            orders: &self.orders,
            given: &self.given,
            read_as: &self.read_as,
            properties: &self.device.properties(),
            options: &self.options,
        };
        let (chosen, _) = lowering::planned(query)?;
        Ok(Explanation::new(query, chosen, program))
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
        let (layers, dtype, device) = (self.graph.operators(), self.dtype, &self.device);
        let (input, output) = (self.problem.input_shape(), self.output_shape());
        write!(
            f,
            "Launches({layers}, {dtype} on {device}, {input:?} to {output:?})"
        )
    }
}

impl Drop for Launches {
    fn drop(&mut self) {
        if let Runs::Kernels(program) = &self.runs {
            for stream in unlocked(&mut self.streams) {
                program.note_earlier_reads(stream);
            }
        }
    }
}

#[cfg(test)]
mod tests;
