//! Plans: prepared runs, also as CUDA graphs.

use std::fmt;

use op_spec::Layout;
use op_spec::graph::{Graph, GraphInput, GraphProblem};

use super::inputs::{Inputs, of_input};
use super::{Explanation, Model, Options};
use crate::device::{DType, Event, Order, Stream, Tensor, in_memory};
use crate::error::{InputsError, Result};
use crate::lowering::output_layout;
use crate::program::{Ready, expect_input, expect_output};

/// A model prepared for inputs of one shape on one stream, with its memory.
///
/// [`execute`](Plan::execute) only launches: it allocates nothing, waits for nothing, and calls nothing that
/// CUDA graph capture forbids. Several plans run side by side on several streams. The exception is the CPU
/// device, whose backend allocates its results in every run.
///
/// Between runs a plan holds one allocation for intermediate tensors, which share bytes where their lifetimes
/// do not overlap. It is as large as the peak of a single run, without the output.
///
/// # Examples
/// ```
/// use convfuse::graph::presets::KernelBench79;
/// use convfuse::{Device, Model, Options, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
/// let mut plan = model.plan(&stream, &[1, 3, 5, 6, 7], &Options::default())?;
/// let mut y = plan.output()?;
/// for seed in 0..3 {
///     let x = Tensor::from_array(&stream, &data::fill(seed, (1, 3, 5, 6, 7)))?;
///     plan.execute(&x, &mut y)?;
///     println!("{}", y.to_array::<f32>()?.sum());
/// }
/// # Ok::<(), convfuse::Error>(())
/// ```
pub struct Plan {
    model: Model,
    options: Options,
    stream: Stream,
    problem: GraphProblem,
    /// The orders of all inputs, the first input's first.
    orders: Vec<Order>,
    /// The program and its memory; `None` on the CPU device, whose backend runs no kernels.
    pub(super) program: Option<Ready>,
}

const OPERATOR: &str = "plan";

impl Model {
    /// Prepares runs on contiguous inputs of one shape, on one stream: chooses and loads kernels, and
    /// allocates memory. The shapes of further inputs follow from the first one's.
    ///
    /// # Errors
    /// As [`forward_with`](Self::forward_with); [`DeviceMismatch`](crate::Error::DeviceMismatch) for another
    /// device's stream.
    pub fn plan(&self, stream: &Stream, input: &[usize], options: &Options) -> Result<Plan> {
        self.plan_orders(stream, input, self.dense(), options)
    }

    /// Prepares runs on inputs with the shapes, strides and 16-byte alignment of `inputs`. If kernels cannot
    /// read an input in place, one kernel copies it in every run.
    ///
    /// # Errors
    /// As [`plan`](Self::plan) and [`forward`](Self::forward); [`Spec`](crate::Error::Spec) for more axes
    /// than the copying kernel supports.
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::presets::KernelBench79;
    /// use convfuse::{Device, Model, Options, Tensor, data};
    ///
    /// let stream = Device::best().stream()?;
    /// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
    /// let x = Tensor::from_array(&stream, &data::fill(1, (2, 3, 5, 6, 7)))?;
    /// let last = x.slice(1..2)?;
    /// let mut plan = model.plan_for(&stream, &last, &Options::default())?;
    /// let mut y = plan.output()?;
    /// plan.execute(&last, &mut y)?;
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn plan_for<'a>(
        &self,
        stream: &Stream,
        inputs: impl Into<Inputs<&'a Tensor>>,
        options: &Options,
    ) -> Result<Plan> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        let orders = self.orders(OPERATOR, &inputs, stream)?;
        self.plan_orders(stream, inputs[0].shape(), orders, options)
    }

    fn plan_orders(
        &self,
        stream: &Stream,
        input: &[usize],
        orders: Vec<Order>,
        options: &Options,
    ) -> Result<Plan> {
        let span = tracing::debug_span!(target: "convfuse::plan", "plan", ?input, device = %stream.device());
        let _entered = span.enter();
        // The check comes before any work on a program that could not run on the stream's device.
        let device = self.device();
        device.must_be(stream.device(), (OPERATOR, "the model"))?;
        let problem = self.graph().problem(input)?;
        let program = if device.is_cpu() {
            None
        } else {
            let program = self.program(input, &orders, options)?;
            let ready = Ready::new(OPERATOR, program, stream)?;
            let launches = ready.program().steps().len();
            let workspace_bytes = ready.workspace_bytes();
            tracing::debug!(target: "convfuse::plan", launches, workspace_bytes, "a plan is made");
            Some(ready)
        };
        Ok(Plan {
            model: self.clone(),
            options: options.clone(),
            stream: stream.clone(),
            problem,
            orders,
            program,
        })
    }
}

impl Plan {
    /// Allocates a tensor of zeros for the output, on the plan's stream, in the
    /// [layout](Options::output_layout) of the output.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn output(&self) -> Result<Tensor> {
        self.new_output(0, self.output_shape())
    }

    /// Allocates a tensor for each of the graph's outputs, in the order of [`Graph::outputs`].
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn outputs(&self) -> Result<Vec<Tensor>> {
        let shapes = self.problem.output_shapes().enumerate();
        shapes
            .map(|(output, shape)| self.new_output(output, shape))
            .collect()
    }

    fn new_output(&self, output: usize, shape: &[usize]) -> Result<Tensor> {
        let (layout, dtype) = (self.layout_of_output(output), self.model.dtype());
        Tensor::zeros(&self.stream, &in_memory(shape, layout), dtype)?.laid_out(layout)
    }

    /// Returns the layout in which the first output is dense.
    #[must_use]
    pub fn output_layout(&self) -> Layout {
        self.layout_of_output(0)
    }

    fn layout_of_output(&self, output: usize) -> Layout {
        output_layout(&self.problem, output, &self.orders[0], &self.options)
    }

    /// Queues one run from `inputs` to `y` on the plan's stream.
    ///
    /// The inputs have the memory layouts that the plan was made for. If an input belongs to another stream,
    /// the device waits for it. `y` must belong to the plan's stream and have no other handle:
    /// [`output`](Plan::output) makes such a tensor.
    ///
    /// # Errors
    /// - [`ShapeMismatch`](crate::Error::ShapeMismatch), [`DTypeMismatch`](crate::Error::DTypeMismatch) for
    ///   tensors that the plan was not made for; [`DeviceMismatch`](crate::Error::DeviceMismatch);
    /// - [`LayoutMismatch`](crate::Error::LayoutMismatch) for an input whose memory layout is not the plan's,
    ///   or an output that is not NHWC although the plan writes NHWC;
    /// - [`NotContiguous`](crate::Error::NotContiguous), [`Misaligned`](crate::Error::Misaligned) for any
    ///   other output that is not dense from a multiple of 16 bytes on;
    ///   [`TensorInUse`](crate::Error::TensorInUse);
    /// - for further inputs as [`Model::forward`];
    /// - [`OtherStreamInCapture`](crate::Error::OtherStreamInCapture) for an input of another stream, if the
    ///   plan's stream is in capture.
    pub fn execute<'a>(
        &mut self,
        inputs: impl Into<Inputs<&'a Tensor>>,
        y: &mut Tensor,
    ) -> Result<()> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        self.execute_arranged(&inputs, &mut [y])
    }

    /// Queues one run to all outputs of the graph, in the order of [`Graph::outputs`].
    /// [`outputs`](Self::outputs) allocates the tensors.
    ///
    /// # Errors
    /// As [`execute`](Self::execute); [`InputsError::Outputs`] for another number of outputs.
    pub fn execute_all<'a>(
        &mut self,
        inputs: impl Into<Inputs<&'a Tensor>>,
        outputs: &mut [Tensor],
    ) -> Result<()> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        let mut outputs: Vec<&mut Tensor> = outputs.iter_mut().collect();
        self.execute_arranged(&inputs, &mut outputs)
    }

    /// Queues one run as [`execute_all`](Self::execute_all), with events before each launch and after the
    /// last one. The times between events are the times of the launches, in the order of
    /// [`Explanation::launches`](super::Explanation). An event keeps a launch from starting before the
    /// previous one is complete, so the sum may exceed the time of a run without events.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) on the CPU device, which launches nothing; the errors of
    /// [`execute_all`](Self::execute_all).
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::presets::KernelBench79;
    /// use convfuse::{Device, Model, Options, Tensor, data};
    ///
    /// let stream = Device::best().stream()?;
    /// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
    /// let x = Tensor::from_array(&stream, &data::fill(1, (1, 3, 5, 6, 7)))?;
    /// let mut plan = model.plan_for(&stream, &x, &Options::default())?;
    /// let mut outputs = plan.outputs()?;
    /// if stream.device().is_gpu() {
    ///     let events = plan.execute_with_events(&x, &mut outputs)?;
    ///     for (launch, between) in plan.explain()?.launches.iter().zip(events.windows(2)) {
    ///         println!("{}: {:?}", launch.kernel, between[1].since(&between[0])?);
    ///     }
    /// }
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn execute_with_events<'a>(
        &mut self,
        inputs: impl Into<Inputs<&'a Tensor>>,
        outputs: &mut [Tensor],
    ) -> Result<Vec<Event>> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        self.must_be_outputs(OPERATOR, outputs.len())?;
        let Some(program) = &mut self.program else {
            return Err(self.stream.device().without("launches to time"));
        };
        let mut outputs: Vec<&mut Tensor> = outputs.iter_mut().collect();
        let mut events = Vec::with_capacity(program.program().steps().len() + 1);
        let stream = &self.stream;
        let mut record = || stream.record().map(|event| events.push(event));
        program.run(OPERATOR, &inputs, &mut outputs, &mut record)?;
        record()?;
        Ok(events)
    }

    /// Refuses a number of outputs that is not the graph's.
    pub(super) fn must_be_outputs(&self, operator: &'static str, actual: usize) -> Result<()> {
        let expected = self.problem.outputs.len();
        match actual == expected {
            true => Ok(()),
            false => Err(InputsError::Outputs {
                operator,
                actual,
                expected,
            }
            .into()),
        }
    }

    /// Queues one run for all inputs in the graph's order.
    pub(super) fn execute_arranged(
        &mut self,
        inputs: &[&Tensor],
        outputs: &mut [&mut Tensor],
    ) -> Result<()> {
        self.must_be_outputs(OPERATOR, outputs.len())?;
        if let Some(program) = &mut self.program {
            return program.run(OPERATOR, inputs, outputs, &mut || Ok(()));
        }
        // The CPU backend makes the same checks as a program, in the same order.
        let (dtype, names) = (self.model.dtype(), self.graph().inputs());
        let further = self.problem.inputs.iter().map(|input| &input.shape[..]);
        let shapes = [self.problem.input_shape()].into_iter().chain(further);
        for (index, (shape, order)) in shapes.zip(&self.orders).enumerate() {
            let fits = expect_input(OPERATOR, shape, dtype, order, inputs[index]);
            of_input(names, index, fits)?;
        }
        for (index, (shape, y)) in self.problem.output_shapes().zip(&*outputs).enumerate() {
            let order = Order::of_layout(shape, self.layout_of_output(index))?;
            expect_output(OPERATOR, shape, dtype, &order, y)?;
        }
        for y in &mut *outputs {
            y.rewrite((OPERATOR, "output"), &self.stream)?;
        }
        for (index, input) in inputs.iter().enumerate() {
            let is_here = input.same_device((OPERATOR, "input"), &self.stream);
            of_input(names, index, is_here)?;
        }
        let layout = |output| self.layout_of_output(output);
        let values = self.model.run_on_cpu(inputs, &self.stream, layout)?;
        let mut both = outputs.iter_mut().zip(values);
        both.try_for_each(|(y, value)| y.assign(value))
    }

    /// Explains which kernels the plan launches.
    ///
    /// # Errors
    /// As [`Model::explain`].
    pub fn explain(&self) -> Result<Explanation> {
        let input = self.problem.input_shape();
        self.model
            .explain_orders(input, &self.orders, &self.options)
    }

    /// The graph of layers.
    pub(super) fn graph(&self) -> &Graph {
        self.model.graph()
    }

    /// The stream that the plan runs on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes of device memory that the plan holds between runs: intermediates and workspaces.
    pub fn workspace_bytes(&self) -> u64 {
        self.program.as_ref().map_or(0, Ready::workspace_bytes)
    }

    /// Returns the shape of the first input.
    pub fn input_shape(&self) -> &[usize] {
        self.problem.input_shape()
    }

    /// The further inputs, in the order of [`Graph::inputs`](crate::graph::Graph::inputs), with the shapes
    /// that follow from the first one's.
    pub fn inputs(&self) -> &[GraphInput] {
        &self.problem.inputs
    }

    /// Returns the shape of the first output.
    pub fn output_shape(&self) -> &[usize] {
        self.problem.output_shape()
    }

    /// Returns the element type of all inputs and outputs.
    pub fn dtype(&self) -> DType {
        self.model.dtype()
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layers, dtype, stream) = (self.graph().operators(), self.dtype(), &self.stream);
        let (input, output) = (self.input_shape(), self.output_shape());
        write!(
            f,
            "Plan({layers}, {input:?} to {output:?}, {dtype} on {stream:?})"
        )
    }
}
