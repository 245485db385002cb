//! Chains: lists of layers, each of which takes what the one before it gives.
//!
//! A [`Layer`] is one of PyTorch's, with its attributes and the name under which its parameters are stored. A
//! [`Chain`] is a list of them that was checked: what it refuses, it refuses when it is made. Its shapes
//! follow from that of its input ([`Chain::problem`]), its parameters are a table ([`Chain::parameters`]),
//! and it can be written down as JSON. Beside its first input a chain may have further ones, which have
//! names: the residuals that its layers add ([`Chain::inputs`]).
//!
//! A [`Partition`] cuts a chain into runs of layers that are to be done together. [`NormalForm`] says what a
//! run computes in the terms in which kernels are chosen.
//!
//! ```
//! use op_spec::chain::{Chain, ConvLayer, Layer};
//! use op_spec::MaxPool2dSpec;
//!
//! let chain = Chain::new(8, [
//!     Layer::conv2d(ConvLayer::new("conv", 64, [3, 3])),
//!     Layer::group_norm("group_norm", 16),
//!     Layer::scale("scale"),
//!     Layer::max_pool2d(MaxPool2dSpec::new([4, 4])),
//!     Layer::clamp(0.0, 1.0),
//! ])?;
//! assert_eq!(chain.problem(&[128, 8, 128, 128])?.output_shape(), [128, 64, 31, 31]);
//! assert_eq!(chain.parameters()[0].name, "conv.weight");
//! # Ok::<(), op_spec::chain::ChainError>(())
//! ```

mod error;
pub(crate) mod file;
mod inputs;
pub(crate) mod layer;
mod normal_form;
mod parameter_table;
pub(crate) mod parameters;
mod partition;
pub mod presets;
mod problem;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use error::ChainError;
pub use inputs::ChainInput;
pub use layer::{
    AddLayer, BatchNormLayer, ConvLayer, GroupNormLayer, InstanceNormLayer, Layer, LayerNormLayer,
    LayerProblem, PreluLayer, Reduction, ScaleLayer,
};
pub use normal_form::{Epilogue, NormalForm, NotNormal, Pointwise};
pub use parameters::{Initialisation, Parameter};
pub use partition::{Partition, PartitionError, Run};
pub use problem::{ChainProblem, ShapedLayer};

/// A list of layers that fit one another.
///
/// As JSON it is an object with `in_channels` and `layers`, a list of objects with one key each, the
/// operator, whose value has the name and the attributes that are not PyTorch's defaults:
///
/// ```json
/// {"in_channels": 3, "layers": [
///     {"conv3d": {"name": "conv", "out_channels": 16, "kernel_size": 3}},
///     {"scale": {"name": "multiplier", "initialisation": "normal"}},
///     {"instance_norm": {"name": "instance_norm"}},
///     {"clamp": {"min": -1.0, "max": 1.0}},
///     {"scale": {"name": "multiplier", "initialisation": "normal"}},
///     {"channel_max": {}}]}
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "file::ChainFile", into = "file::ChainFile")]
pub struct Chain {
    in_channels: usize,
    layers: Vec<Layer>,
    parameters: Vec<Parameter>,
    /// For each layer, where its parameters stand in the table.
    parameter_indices: Vec<Vec<usize>>,
    /// The names of further inputs.
    inputs: Vec<String>,
    /// For each layer, where the one that it takes stands among them.
    input_indices: Vec<Option<usize>>,
}

impl Chain {
    /// The chain of these layers on inputs with `in_channels` channels.
    ///
    /// # Errors
    /// No layers; what a layer refuses whatever the input is; a layer for images behind one that gives
    /// volumes; a layer that needs channels behind a maximum over them; layers that share a parameter of
    /// different shapes; a further input without a name.
    pub fn new(
        in_channels: usize,
        layers: impl IntoIterator<Item = Layer>,
    ) -> Result<Chain, ChainError> {
        let layers: Vec<Layer> = layers.into_iter().collect();
        if layers.is_empty() {
            return Err(ChainError::Empty);
        }
        let flow = layer::flow(in_channels, &layers)?;
        let (parameters, parameter_indices) = parameter_table::table(&layers, &flow)?;
        let (inputs, input_indices) = inputs::table(&layers)?;
        Ok(Chain {
            in_channels,
            layers,
            parameters,
            parameter_indices,
            inputs,
            input_indices,
        })
    }

    /// Channels of the input.
    #[must_use]
    pub const fn in_channels(&self) -> usize {
        self.in_channels
    }

    /// The layers, in order.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Every parameter once, in the order in which the layers name them.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// For each parameter of a layer, in the order of [`Layer::operator`]'s PyTorch function, where it stands
    /// in [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn parameters_of(&self, layer: usize) -> &[usize] {
        &self.parameter_indices[layer]
    }

    /// The names of the inputs beside the first one, which has none, each once, in the order in which the
    /// layers name them.
    #[must_use]
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// Where the further input that a layer takes stands in [`inputs`](Self::inputs), if it takes one.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    pub fn input_of(&self, layer: usize) -> Option<usize> {
        self.input_indices[layer]
    }

    /// Whether an input of this shape has no batch: it has one dimension less than a batch of what the first
    /// layer takes that has a fixed number of them, such as `(c, h, w)` for a chain with a `conv2d`. Its
    /// output then has none either.
    #[must_use]
    pub fn lacks_batch(&self, input: &[usize]) -> bool {
        let mut layers = self.layers.iter();
        let dimensions = layers.find_map(|layer| layer.kind().dimensions());
        dimensions.is_some_and(|dimensions| input.len() == dimensions + 1)
    }

    /// All extents for an input of this shape, `(n, in_channels, ..)`, or `(in_channels, ..)` where it
    /// [has no batch](Self::lacks_batch).
    ///
    /// # Errors
    /// [`ChainError::NoBatch`] for a layer that takes the first axis for the batch, as PyTorch's `GroupNorm`,
    /// `BatchNorm2d` and `max(dim=1)` do, where there is none; [`ChainError::Layer`] with what the first
    /// layer that refuses its input says; [`ChainError::SharedInput`] for layers that take the same further
    /// input and are given different shapes.
    pub fn problem(&self, input: &[usize]) -> Result<ChainProblem, ChainError> {
        ChainProblem::new(self, input)
    }

    /// The operators' names, with spaces between.
    #[must_use]
    pub fn operators(&self) -> String {
        let names: Vec<&str> = self.layers.iter().map(Layer::operator).collect();
        names.join(" ")
    }
}
