//! A graph with its parameters on a device.

use std::fmt;
use std::sync::{Arc, OnceLock};

use op_spec::Layout;
use op_spec::graph::{Graph, GraphProblem, Parameter};

use super::Options;
use super::inputs::{Inputs, orders};
use super::pipelines::Pipelines;
use super::programs::Programs;
use crate::cpu;
use crate::device::{DType, Device, DeviceProperties, Order, Stream, Tensor};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lowering::{self, Query, Source};
use crate::operators::Prepared;
use crate::parameters::Parameters;
use crate::program::Program;

const OPERATOR: &str = "model";

/// A graph of layers with its parameters on a device, ready to run. Cloning gives the same model.
///
/// *Shapes*: as the graph's, see [`Graph::problem`].
///
/// *Numerics*, *NaN*: as the operators' in [`ops`](crate::ops); options affect only rounding.
///
/// On the CPU device the ndarray backend runs, with any options.
///
/// # Examples
/// ```
/// use convfuse::graph::{Chain, Layer};
/// use convfuse::{Device, Model, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let chain = Chain::new(8, (
///     Layer::conv2d("conv", 64, 3),
///     Layer::group_norm("group_norm", 16),
///     Layer::scale("scale"),
///     Layer::max_pool2d(4),
///     Layer::clamp(-1.0, 1.0),
/// ))?;
/// let model = Model::init(&stream, &chain, 7)?;
/// let x = Tensor::from_array(&stream, &data::fill(1, (1, 8, 14, 19)))?;
/// assert_eq!(model.forward(&x)?.shape(), [1, 64, 3, 4]);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    stream: Stream,
    shared: Arc<Shared>,
}

struct Shared {
    graph: Graph,
    /// The parameters on the host. A model made of tensors copies them when they are first needed.
    parameters: OnceLock<Parameters>,
    dtype: DType,
    /// The parameters on the device, in the order of the graph's table.
    tensors: Vec<Tensor>,
    /// The element types of these tensors.
    dtypes: Vec<DType>,
    /// Parameters in the prepared forms that fused kernels read.
    prepared: Prepared,
    programs: Programs,
    pipelines: Pipelines,
}

impl Model {
    /// Makes a model with f32 parameters, uploaded on `stream`.
    ///
    /// # Errors
    /// [`Error::Parameters`] for values that do not match the graph's parameters; [`Error::OutOfMemory`].
    pub fn new(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        parameters: &Parameters,
    ) -> Result<Model> {
        Model::with_dtype(stream, graph, parameters, DType::F32)
    }

    /// Makes a model whose parameters, inputs and outputs are stored as `dtype`; f32 parameters are rounded
    /// to it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_dtype(
        stream: &Stream,
        graph: impl AsRef<Graph>,
        parameters: &Parameters,
        dtype: DType,
    ) -> Result<Model> {
        let graph = graph.as_ref();
        parameters.check(graph)?;
        let parameters = parameters.to_rounded(dtype)?;
        let upload = |parameter: &Parameter| {
            let value = parameters.get(&parameter.name).expect("they were checked");
            Tensor::from_f32_array(stream, &value, dtype)
        };
        let tensors = graph.parameters().iter().map(upload);
        let tensors = tensors.collect::<Result<_>>()?;
        let parameters = parameters.into();
        Ok(Model::with(stream, graph, parameters, dtype, tensors))
    }

    pub(super) fn with(
        stream: &Stream,
        graph: &Graph,
        parameters: OnceLock<Parameters>,
        dtype: DType,
        tensors: Vec<Tensor>,
    ) -> Model {
        let shared = Shared {
            graph: graph.clone(),
            parameters,
            dtype,
            dtypes: tensors.iter().map(Tensor::dtype).collect(),
            tensors,
            prepared: Prepared::default(),
            programs: Programs::default(),
            pipelines: Pipelines::default(),
        };
        Model {
            stream: stream.clone(),
            shared: Arc::new(shared),
        }
    }

    /// Makes a model whose parameters are initialised as in PyTorch.
    ///
    /// # Errors
    /// [`Error::Parameters`] for parameters that do not fit into memory.
    pub fn init(stream: &Stream, graph: impl AsRef<Graph>, seed: u64) -> Result<Model> {
        let graph = graph.as_ref();
        Model::new(stream, graph, &Parameters::init(graph, seed)?)
    }

    /// The graph of layers.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.shared.graph
    }

    /// The element type of parameters, inputs and outputs.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.shared.dtype
    }

    /// The stream that the parameters were uploaded on.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the shape of the output for an input of this shape.
    ///
    /// # Errors
    /// [`Error::Graph`] for an input that the graph refuses.
    pub fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let problem = self.shared.graph.problem(input)?;
        Ok(problem.output_shape().to_vec())
    }

    /// Computes the output for `x`, on the stream of `x`, with the default options. The host does not wait
    /// for the device. For a graph with several outputs it returns the first;
    /// [`forward_all`](Self::forward_all) returns all.
    ///
    /// An `x` without a batch gives an output without one, see [`Graph::lacks_batch`].
    ///
    /// Further inputs of the graph are passed by name:
    /// `model.forward(Inputs::new(&x).with("residual", &residual))?`.
    ///
    /// Inputs may have any strides. If the kernels cannot read an input's layout, one kernel first copies the
    /// input on the device; the bits of the output do not depend on it. The output is dense. It has the
    /// layout of the first input, channels-last or row-major, unless the [options](Options::output_layout)
    /// request another.
    ///
    /// # Errors
    /// [`Error::Graph`] for an input that the graph refuses; [`Error::DTypeMismatch`],
    /// [`Error::DeviceMismatch`], [`Error::OutOfMemory`]. [`Error::Inputs`] for further inputs that do not
    /// match the graph's; [`Error::NamedInput`] for a further input of another shape, element type or device.
    pub fn forward<'a>(&self, inputs: impl Into<Inputs<&'a Tensor>>) -> Result<Tensor> {
        self.forward_with(inputs, &Options::default())
    }

    /// [`forward`](Self::forward) with options.
    ///
    /// # Errors
    /// As [`forward`](Self::forward); [`Error::NoKernels`] for a partition that no kernels implement.
    pub fn forward_with<'a>(
        &self,
        inputs: impl Into<Inputs<&'a Tensor>>,
        options: &Options,
    ) -> Result<Tensor> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        self.forward_arranged(&inputs, options)
    }

    /// Computes all outputs of the graph, in the order of [`Graph::outputs`]; otherwise as
    /// [`forward_with`](Self::forward_with).
    ///
    /// # Errors
    /// As [`forward_with`](Self::forward_with).
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::{Graph, Layer};
    /// use convfuse::{Device, Model, Options, Tensor, data};
    ///
    /// let stream = Device::best().stream()?;
    /// let graph = Graph::builder("x", 3)
    ///     .layer("features", "x", Layer::conv2d("conv", 8, 3))
    ///     .layer("small", "features", Layer::max_pool2d(2))
    ///     .output("features")
    ///     .build("small")?;
    /// let model = Model::init(&stream, &graph, 7)?;
    /// let x = Tensor::from_array(&stream, &data::fill(1, (2, 3, 6, 8)))?;
    /// let outputs = model.forward_all(&x, &Options::default())?;
    /// assert_eq!(outputs[0].shape(), [2, 8, 2, 3]);
    /// assert_eq!(outputs[1].shape(), [2, 8, 4, 6]);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn forward_all<'a>(
        &self,
        inputs: impl Into<Inputs<&'a Tensor>>,
        options: &Options,
    ) -> Result<Vec<Tensor>> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        self.forward_all_arranged(&inputs, options)
    }

    /// Computes the first output from all inputs in the graph's order.
    pub(super) fn forward_arranged(&self, inputs: &[&Tensor], options: &Options) -> Result<Tensor> {
        Ok(self.forward_all_arranged(inputs, options)?.remove(0))
    }

    /// Computes all outputs from all inputs in the graph's order.
    fn forward_all_arranged(&self, inputs: &[&Tensor], options: &Options) -> Result<Vec<Tensor>> {
        let orders = self.orders(OPERATOR, inputs, &self.stream)?;
        let x = inputs[0];
        if x.device().is_cpu() {
            let problem = self.graph().problem(x.shape())?;
            let layout = |output| lowering::output_layout(&problem, output, &orders[0], options);
            return self.run_on_cpu(inputs, x.stream(), layout);
        }
        let program = self.program(x.shape(), &orders, options)?;
        program.run_once(OPERATOR, x.stream(), inputs)
    }

    /// Returns the memory orders of the inputs. Refuses an input that has another element type, is not on the
    /// device of `stream`, or could not be copied by kernels, and a further input whose shape contradicts the
    /// first one's.
    pub(super) fn orders(
        &self,
        operator: &'static str,
        inputs: &[&Tensor],
        stream: &Stream,
    ) -> Result<Vec<Order>> {
        orders(operator, inputs, self.graph(), self.dtype(), stream)
    }

    /// Returns the orders of dense inputs.
    pub(super) fn dense(&self) -> Vec<Order> {
        vec![Order::Dense; 1 + self.graph().inputs().len()]
    }

    /// Runs the CPU backend once. The results belong to `stream` and have these layouts.
    pub(super) fn run_on_cpu(
        &self,
        inputs: &[&Tensor],
        stream: &Stream,
        layout: impl Fn(usize) -> Layout,
    ) -> Result<Vec<Tensor>> {
        let (shared, x) = (&*self.shared, inputs[0]);
        let problem = shared.graph.problem(x.shape())?;
        let values = inputs.iter().map(|input| input.host_f32());
        let values = values.collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = values.iter().map(|values| values.view()).collect();
        let outputs = cpu::run(
            &shared.graph,
            &problem,
            x.dtype(),
            self.parameters()?,
            &views,
        )?;
        let outputs = outputs.into_iter().enumerate();
        outputs
            .map(|(output, y)| Tensor::from_cpu(stream, y, x.dtype(), layout(output)))
            .collect()
    }

    /// Returns the program for a first input of this shape and inputs of these orders, on a device that runs
    /// kernels.
    pub(super) fn program(
        &self,
        input: &[usize],
        orders: &[Order],
        options: &Options,
    ) -> Result<Arc<Program>> {
        self.shared.programs.get(input, orders, options, || {
            let problem = self.shared.graph.problem(input)?;
            let properties = self.device().properties();
            let query = self.query(&problem, orders, options, &properties);
            let mut chosen = lowering::choose(query)?;
            lowering::program_of(query, self.device(), self.kept(), &mut chosen)
        })
    }

    /// Returns the parameters as the source of a program.
    fn kept(&self) -> Source<'_> {
        Source::Kept {
            tensors: &self.shared.tensors,
            prepared: &self.shared.prepared,
        }
    }

    /// Returns the prepared forms of the parameters.
    #[cfg(test)]
    pub(super) fn prepared(&self) -> &Prepared {
        &self.shared.prepared
    }

    pub(super) fn query<'a>(
        &'a self,
        problem: &'a GraphProblem,
        orders: &'a [Order],
        options: &'a Options,
        properties: &'a DeviceProperties,
    ) -> Query<'a> {
        Query {
            graph: &self.shared.graph,
            problem,
            dtype: self.shared.dtype,
            orders,
            given: &[],
            read_as: &self.shared.dtypes,
            properties,
            options,
        }
    }

    /// Returns the element types of the parameters on the device.
    pub(super) fn parameter_dtypes(&self) -> &[DType] {
        &self.shared.dtypes
    }

    /// Returns the parameters on the host, if they are there, and on the device.
    pub(super) fn values(&self) -> (&OnceLock<Parameters>, &[Tensor]) {
        (&self.shared.parameters, &self.shared.tensors)
    }

    pub(super) fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Returns the kept pipelines for arrays.
    pub(super) fn pipelines(&self) -> &Pipelines {
        &self.shared.pipelines
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layers, dtype) = (self.graph().operators(), self.dtype());
        write!(f, "Model({layers}, {dtype} on {})", self.device())
    }
}
