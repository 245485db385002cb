//! Graphs of layers: the computation of a model.
//!
//! A [`Layer`] is one of PyTorch's modules or functions, with its attributes and the name under which its
//! parameters are stored. A [`Graph`] has named values: its inputs and the outputs of its layers. A layer
//! takes one value or several, and any number of layers may take the same value. A graph is checked when it
//! is built. Its shapes follow from the shape of its first input ([`Graph::problem`]), and its parameters are
//! a table ([`Graph::parameters`]).
//!
//! A [`Chain`] is the simplest graph: a list of layers, each of which takes the output of the layer before
//! it. Graphs and chains can be stored as JSON.
//!
//! A *path* ([`Graph::paths`]) is a list of layers whose values, except the last one's, no layer outside of
//! the path takes. Only layers of one path can be fused. A [`Partition`] selects the layers to fuse. A
//! [`NormalForm`] describes such layers in the terms in which kernels are chosen.
//!
//! # Examples
//! ```
//! # use op_spec as convfuse;
//! use convfuse::graph::{Graph, Layer};
//!
//! let conv = |name: &str| Layer::conv2d(name, 64, 3).padding(1);
//! // A residual block: relu(conv2(relu(conv1(x))) + x).
//! let block = Graph::builder("x", 64)
//!     .layer("first", "x", conv("conv1"))
//!     .layer("active", "first", Layer::relu())
//!     .layer("second", "active", conv("conv2"))
//!     .layer("sum", "second", Layer::add("x"))
//!     .layer("y", "sum", Layer::relu())
//!     .build("y")?;
//! assert_eq!(block.problem(&[8, 64, 56, 56])?.output_shape(), [8, 64, 56, 56]);
//! assert_eq!(block.parameters()[2].name, "conv2.weight");
//! assert_eq!(block.paths(), [[0, 1, 2, 3, 4]]);
//! # Ok::<(), op_spec::graph::GraphError>(())
//! ```

mod builder;
mod chain;
mod channel_affine;
mod debug;
mod error;
pub(crate) mod file;
mod flow;
pub(crate) mod layer;
mod naming;
mod network;
mod normal_form;
mod parameter_table;
pub(crate) mod parameters;
mod partition;
mod paths;
pub mod presets;
mod problem;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use network::NetworkFile;
use serde::Serialize;

pub use builder::GraphBuilder;
pub use chain::{ByIteration, ByTuple, Chain, Layers};
pub use channel_affine::ChannelAffine;
pub use error::GraphError;
pub use layer::{
    ArithmeticLayer, BatchNormLayer, BroadcastParameter, ByItself, CatLayer, ConvLayer,
    ConvTransposeLayer, GateLayer, GroupNormLayer, InstanceNormLayer, Layer, LayerNormLayer,
    LayerProblem, LinearLayer, Other, OtherTensor, PreluLayer, Reduction, ReshapeLayer, ScaleLayer,
};
pub use normal_form::{Epilogue, NormalForm, NotNormal, Pointwise};
pub use parameters::{AbsentParameter, Initialisation, Parameter};
pub use partition::{Partition, PartitionError, Run};
pub use problem::{GraphInput, GraphProblem, ShapedLayer};

/// A value that a layer takes. Exhaustive: a graph has no other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// An input of the graph: 0 is the first one, 1 the first of [`Graph::inputs`].
    Input(usize),
    /// The output of the layer of this number.
    Layer(usize),
}

/// Layers that fit one another, in an order in which they can be computed. [`GraphBuilder`] has an example.
///
/// As JSON, a graph is an object with the file's `version`, which is 1, the first `input` with its number of
/// channels, the `layers` and the `output`. Optional lists have the names of further `inputs` and `outputs`.
/// Each entry of `layers` has the `name` of its output, the name of its first operand as `input`, and the
/// `layer` in the same form as in a [`Chain`]. The values of a chain get generated names, mostly numbers.
///
/// ```json
/// {"version": 1, "input": {"name": "x", "channels": 64}, "layers": [
///     {"name": "convolved", "input": "x", "layer": {"conv2d": {"name": "conv", "out_channels": 64, "kernel_size": 1}}},
///     {"name": "sum", "input": "convolved", "layer": {"add": {"input": "x"}}},
///     {"name": "y", "input": "sum", "layer": {"relu": {}}}],
///  "output": "y"}
/// ```
#[derive(Clone, PartialEq, Serialize)]
#[serde(into = "NetworkFile")]
pub struct Graph {
    in_channels: usize,
    /// The name of the first input; empty in a chain.
    input: String,
    /// The names of the inputs beside the first.
    inputs: Vec<String>,
    layers: Vec<Layer>,
    /// For each layer, the name of its output; empty in a chain.
    names: Vec<String>,
    /// For each layer, its operands.
    operands: Vec<Vec<Operand>>,
    /// The layers whose outputs are the graph's outputs, the first output's layer first.
    outputs: Vec<usize>,
    paths: Vec<Vec<usize>>,
    /// For each layer, the last layer that takes its output; the layer itself if there is none. An output of
    /// the graph has a number that is no layer's.
    last_readers: Vec<usize>,
    parameters: parameter_table::Table,
}

/// A layer whose operands are resolved.
struct Node {
    name: String,
    layer: Layer,
    operands: Vec<Operand>,
}

/// Returns the operand that the layer with this index takes by number, if any.
fn earlier(layer: &Layer, index: usize) -> Result<Option<Operand>, GraphError> {
    match layer.kind().earlier() {
        Some(other) if other >= index => Err(GraphError::LaterLayer {
            layer: index,
            operator: layer.operator(),
            other,
        }),
        other => Ok(other.map(Operand::Layer)),
    }
}

impl Graph {
    /// Builds a graph of these layers. An empty `outputs` selects the last layer.
    fn new(
        in_channels: usize,
        input: String,
        inputs: Vec<String>,
        nodes: Vec<Node>,
        outputs: Vec<usize>,
    ) -> Result<Graph, GraphError> {
        let (mut layers, mut names, mut operands) = (Vec::new(), Vec::new(), Vec::new());
        for node in nodes {
            layers.push(node.layer);
            names.push(node.name);
            operands.push(node.operands);
        }
        if layers.is_empty() {
            return Err(GraphError::Empty);
        }
        let of_layer = |error: GraphError| error.among(&names);
        let flow = flow::flow(in_channels, &layers, &operands).map_err(of_layer)?;
        let parameters = parameter_table::table(&layers, &flow).map_err(of_layer)?;
        let outputs = match outputs.is_empty() {
            true => vec![layers.len() - 1],
            false => outputs,
        };
        let paths = paths::paths(&layers, &mut operands, &outputs);
        let mut last_readers: Vec<usize> = (0..layers.len()).collect();
        for (index, operands) in operands.iter().enumerate() {
            for operand in operands {
                if let Operand::Layer(layer) = *operand {
                    last_readers[layer] = index;
                }
            }
        }
        for &output in &outputs {
            last_readers[output] = usize::MAX;
        }
        Ok(Graph {
            in_channels,
            input,
            inputs,
            layers,
            names,
            operands,
            outputs,
            paths,
            last_readers,
            parameters,
        })
    }

    /// The name of the first input; empty in a [`Chain`].
    #[must_use]
    pub fn input(&self) -> &str {
        &self.input
    }

    /// Channels of the first input.
    #[must_use]
    pub const fn in_channels(&self) -> usize {
        self.in_channels
    }

    /// The layers, each behind the layers whose outputs it takes.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The layers whose values are the graph's outputs, the first output's layer first. A [`Chain`] has one
    /// output, the value of its last layer.
    #[must_use]
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// The name of a layer's output; empty in a [`Chain`].
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn name_of(&self, layer: usize) -> &str {
        &self.names[layer]
    }

    /// The operands of a layer, at least one. If the layer's operands may be swapped, as those of an
    /// addition, the operand along the [path](Self::paths) comes first.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn operands(&self, layer: usize) -> &[Operand] {
        &self.operands[layer]
    }

    /// The layers divided into the longest possible paths. Each value inside of a path is taken by the next
    /// layer alone, or also by later layers of the path if only arithmetic and functions of single values
    /// come before them. The other operands of a path are inputs and the outputs of the last layers of
    /// earlier paths.
    #[must_use]
    pub fn paths(&self) -> &[Vec<usize>] {
        &self.paths
    }

    /// Whether no other layer takes a value of these layers, a part of a [path](Self::paths), except the last
    /// one's.
    ///
    /// # Panics
    /// If there are no such layers.
    #[must_use]
    pub fn is_closed(&self, layers: &[usize]) -> bool {
        let (last, inner) = layers.split_last().expect("a part has a layer");
        inner.iter().all(|&layer| self.last_readers[layer] <= *last)
    }

    /// Every parameter once, in the order of the layers' first use.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters.parameters
    }

    /// The parameters that named layers lack but would have with other attributes.
    #[must_use]
    pub fn absent_parameters(&self) -> &[AbsentParameter] {
        &self.parameters.absent
    }

    /// The indices of a layer's parameters in [`parameters`](Self::parameters), in the order of the arguments
    /// of the PyTorch function [`Layer::operator`].
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn parameters_of(&self, layer: usize) -> &[usize] {
        &self.parameters.indices[layer]
    }

    /// The names of the inputs beside the first one, each once. Their shapes follow from the shape of the
    /// first one.
    #[must_use]
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// Whether an input of this shape has no batch: its rank is one less than that of the graph's batched
    /// input, such as `(c, h, w)` for a graph that begins with a `conv2d`. The batched rank follows from the
    /// first layer that takes a fixed number of dimensions. The output of an input without a batch has none
    /// either.
    #[must_use]
    pub fn lacks_batch(&self, input: &[usize]) -> bool {
        let dimensions = flow::input_dimensions(&self.layers, &self.operands);
        dimensions.is_some_and(|dimensions| input.len() == dimensions + 1)
    }

    /// Whether a sample's output depends on the other samples of its batch, as with a batch norm by the
    /// batch's statistics.
    #[must_use]
    pub fn couples_samples(&self) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.kind().couples_samples())
    }

    /// Computes all extents for a first input of the shape `(n, in_channels, ..)`, or `(in_channels, ..)` for
    /// an input that [has no batch](Self::lacks_batch).
    ///
    /// # Errors
    /// [`GraphError::NoBatch`] if there is no batch but a layer takes the first axis as the batch, as
    /// PyTorch's `GroupNorm`, `BatchNorm2d` and `max(dim=1)` do; [`GraphError::Layer`] with the error of the
    /// first layer that refuses its operands; [`GraphError::SharedInput`] for layers that expect different
    /// shapes of the same further input. If layers have names, [`GraphError::Named`] wraps each of these
    /// errors.
    pub fn problem(&self, input: &[usize]) -> Result<GraphProblem, GraphError> {
        GraphProblem::new(self, input).map_err(|error| error.among(&self.names))
    }

    /// The operators' names, separated by spaces.
    #[must_use]
    pub fn operators(&self) -> String {
        let names: Vec<&str> = self.layers.iter().map(Layer::operator).collect();
        names.join(" ")
    }
}

impl AsRef<Graph> for Graph {
    fn as_ref(&self) -> &Graph {
        self
    }
}
