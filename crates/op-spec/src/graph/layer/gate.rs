//! A product with another value that has one factor per channel, or per position, of each sample.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{GraphLayer, Layer, LayerProblem};
use crate::error::{SpecError, channels_alone};
use crate::setters::setters;
use crate::shape::ChannelShape;

const OPERATOR: &str = "gate";

/// Multiplies each value by the factor of its sample and channel, as in squeeze-and-excitation: PyTorch's
/// `x * gate` with a `gate` of the shape `(n, c, 1, 1)` for images. With [`dim`](Self::dim) 1, the factor is
/// that of the sample and the position, as in spatial attention, with a `gate` of the shape `(n, 1, h, w)`.
///
/// *Shapes*: `(n, c, ..)` and a gate of the same rank to `(n, c, ..)`. The gate's extents behind the channels
/// are 1, or with `dim` its extent of channels is 1; the others are the input's. *Numerics*: one product in
/// f32 for each value, rounded once. *NaN* and infinities behave as in a product.
///
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Graph, Layer};
///
/// let graph = Graph::builder("x", 8)
///     .layer("pooled", "x", Layer::adaptive_avg_pool2d(1))
///     .layer("excited", "pooled", Layer::conv2d("excite", 8, 1))
///     .layer("weights", "excited", Layer::sigmoid())
///     .layer("y", "x", Layer::gate("weights"))
///     .build("y")?;
/// assert_eq!(graph.problem(&[2, 8, 5, 6])?.output_shape(), [2, 8, 5, 6]);
/// # Ok::<(), op_spec::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
#[non_exhaustive]
pub struct GateLayer {
    /// The name of the gate: in a [`Graph`](crate::graph::Graph) any value, in a
    /// [`Chain`](crate::graph::Chain) a further input.
    pub input: String,
    /// The axis along which the gate has one value: 1, the channels. `None` stands for all axes behind the
    /// channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
}

setters! {
    [] GateLayer {
        /// Sets the axis along which the gate has one value: 1, the channels.
        dim(dim: usize) |layer| layer.dim = Some(dim);
    }
}

impl GateLayer {
    /// Returns the gate by the value of this name, which has a factor for each sample and channel.
    #[must_use]
    pub fn new(input: impl Into<String>) -> Self {
        Self {
            input: input.into(),
            dim: None,
        }
    }
}

impl Layer {
    /// Multiplies each value by the factor of its sample and channel in the value of this name; see
    /// [`GateLayer`].
    #[must_use]
    pub fn gate(input: impl Into<String>) -> Layer {
        Layer::Gate(GateLayer::new(input))
    }
}

/// A gate whose input has channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateProblem {
    /// Shape of input and output.
    pub shape: ChannelShape,
    /// Whether the factors are per position of a sample, instead of per channel.
    pub of_positions: bool,
}

impl GraphLayer for GateLayer {
    fn operands(&self) -> &[String] {
        core::slice::from_ref(&self.input)
    }

    fn other_shape(&self, input: &[usize]) -> Vec<usize> {
        let is_whole = |axis| match self.dim {
            None => axis < 2,
            Some(dim) => axis != dim,
        };
        let extents = input.iter().enumerate();
        extents
            .map(|(axis, &extent)| if is_whole(axis) { extent } else { 1 })
            .collect()
    }

    fn other_channels(&self, channels: usize) -> usize {
        self.dim.map_or(channels, |_| 1)
    }

    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        self.dim
            .map_or(Ok(()), |dim| channels_alone(OPERATOR, dim))?;
        Ok(Some(channels))
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        let problem = GateProblem {
            shape,
            of_positions: self.dim.is_some(),
        };
        Ok((LayerProblem::Gate(problem), input.to_vec()))
    }
}
