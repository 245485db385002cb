//! Graphs of layers: what a model computes.
//!
//! A [`Layer`] is one of PyTorch's, with its attributes and the name under which its parameters are stored. A
//! [`Graph`] has named values: its inputs, and what its layers give. A layer takes one value or several, and
//! a value may be taken by any number of layers. A graph is checked when it is made. Its shapes follow from
//! that of its first input ([`Graph::problem`]), and its parameters are a table ([`Graph::parameters`]).
//!
//! A [`Chain`] is the simplest graph, in which each layer takes what the one before it gives. It is made of a
//! list of layers. Both can be written down as JSON.
//!
//! Layers along which no value is taken by others form a *path* ([`Graph::paths`]): what may be computed
//! together is a part of one. Arithmetic may take a value of its own path again. A [`Partition`] says what is
//! to be. [`NormalForm`] says what such layers compute in the terms in which kernels are chosen.
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
mod by_itself;
mod chain;
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
pub use error::GraphError;
pub use layer::{
    ArithmeticLayer, BatchNormLayer, BroadcastParameter, ByItself, CatLayer, ConvLayer,
    ConvTransposeLayer, GateLayer, GroupNormLayer, InstanceNormLayer, Layer, LayerNormLayer,
    LayerProblem, LinearLayer, Other, OtherTensor, PreluLayer, Reduction, ReshapeLayer, ScaleLayer,
};
pub use normal_form::{ChannelAffine, Epilogue, NormalForm, NotNormal, Pointwise};
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

/// Layers that fit one another, in an order in which they can be computed; see [`GraphBuilder`] for an
/// example.
///
/// As JSON it is an object with the file's `version`, which is 1, the first `input` with its channels, the
/// names of further `inputs`, if there are any, the `layers`, the `output`, and the names of further
/// `outputs`, if there are any. Each layer has the `name` of what it gives, that of its first operand as
/// `input`, and the `layer` as a [`Chain`] has it. The values of a chain get names that are made up, numbers
/// mostly.
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
    /// For each layer the name of its output; empty in a chain.
    names: Vec<String>,
    /// For each layer what it takes.
    operands: Vec<Vec<Operand>>,
    /// The layers that give the outputs, the first output's first.
    outputs: Vec<usize>,
    paths: Vec<Vec<usize>>,
    /// For each layer the last one that takes its output; itself where none does, and no layer's number where
    /// it is an output of the graph.
    last_readers: Vec<usize>,
    parameters: parameter_table::Table,
}

/// A layer whose operands are resolved.
struct Node {
    name: String,
    layer: Layer,
    operands: Vec<Operand>,
}

/// The output that layer `index` takes by its number, if it takes one so.
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
    /// The graph of these layers, of which some give the outputs; the last one, if none is named.
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

    /// The layers, each after those whose outputs it takes.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The layers whose values are the graph's outputs, the first output's first. A [`Chain`] has one, that
    /// of its last layer.
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

    /// What a layer takes, at least one value. Where the order does not matter to the layer, as to an
    /// addition, the value along a [path](Self::paths) comes first.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn operands(&self, layer: usize) -> &[Operand] {
        &self.operands[layer]
    }

    /// The layers cut into the longest paths along which each value is taken by the next layer alone, or by
    /// later layers of the path as well, up to which there is nothing but arithmetic and functions of single
    /// values. What a path takes besides comes from inputs and from the last layers of earlier paths.
    #[must_use]
    pub fn paths(&self) -> &[Vec<usize>] {
        &self.paths
    }

    /// Whether of these layers, a part of a [path](Self::paths), others take only what the last one gives.
    ///
    /// # Panics
    /// If there are no such layers.
    #[must_use]
    pub fn is_closed(&self, layers: &[usize]) -> bool {
        let (last, inner) = layers.split_last().expect("a part has a layer");
        inner.iter().all(|&layer| self.last_readers[layer] <= *last)
    }

    /// Every parameter once, in the order in which the layers name them.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters.parameters
    }

    /// The parameters that layers with a name do not have, and would have under other attributes.
    #[must_use]
    pub fn absent_parameters(&self) -> &[AbsentParameter] {
        &self.parameters.absent
    }

    /// For each parameter of a layer, in the order of [`Layer::operator`]'s PyTorch function, where it stands
    /// in [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn parameters_of(&self, layer: usize) -> &[usize] {
        &self.parameters.indices[layer]
    }

    /// The names of the inputs beside the first one, each once. Their shapes follow from the first one's.
    #[must_use]
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// Whether an input of this shape has no batch: it has one dimension less than a batch of what the graph
    /// takes, which follows from the first layer that has a fixed number of them, such as `(c, h, w)` for a
    /// graph that begins with a `conv2d`. Its output then has none either.
    #[must_use]
    pub fn lacks_batch(&self, input: &[usize]) -> bool {
        let dimensions = flow::input_dimensions(&self.layers, &self.operands);
        dimensions.is_some_and(|dimensions| input.len() == dimensions + 1)
    }

    /// Whether what a sample gives depends on the others of its batch, as in a batch norm by the batch's
    /// statistics.
    #[must_use]
    pub fn couples_samples(&self) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.kind().couples_samples())
    }

    /// All extents for a first input of this shape, `(n, in_channels, ..)`, or `(in_channels, ..)` where it
    /// [has no batch](Self::lacks_batch).
    ///
    /// # Errors
    /// [`GraphError::NoBatch`] for a layer that takes the first axis for the batch, as PyTorch's `GroupNorm`,
    /// `BatchNorm2d` and `max(dim=1)` do, where there is none; [`GraphError::Layer`] with what the first
    /// layer that refuses its operands says; [`GraphError::SharedInput`] for layers that take the same
    /// further input and are given different shapes. Where layers have names, each of these is inside of
    /// [`GraphError::Named`].
    pub fn problem(&self, input: &[usize]) -> Result<GraphProblem, GraphError> {
        GraphProblem::new(self, input).map_err(|error| error.among(&self.names))
    }

    /// The operators' names, with spaces between.
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
