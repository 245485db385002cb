//! A product with another value that has one factor for each channel of each sample.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::error::SpecError;
use crate::graph::layer::{GraphLayer, Layer, LayerProblem};
use crate::shape::ChannelShape;

const OPERATOR: &str = "gate";

/// Each value times the factor of its sample and its channel, as in squeeze and excitation; PyTorch's
/// `x * gate` with a `gate` of the shape `(n, c, 1, 1)` for images.
///
/// *Shapes*: `(n, c, ..)` and a gate of as many axes whose extents behind the channels are 1, to `(n, c,
/// ..)`. *Numerics*: one product in f32 for each value, which is rounded once. *NaN* and infinities as in a
/// product.
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
}

impl Layer {
    /// Each value times the factor of its sample and channel, which the value of this name has; see
    /// [`GateLayer`].
    #[must_use]
    pub fn gate(input: impl Into<String>) -> Layer {
        Layer::Gate(GateLayer {
            input: input.into(),
        })
    }
}

/// A gate on an input that has channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateProblem {
    /// Shape of input and output.
    pub shape: ChannelShape,
}

impl GraphLayer for GateLayer {
    fn operands(&self) -> &[String] {
        core::slice::from_ref(&self.input)
    }

    fn other_shape(&self, input: &[usize]) -> Vec<usize> {
        let extents = input.iter().enumerate();
        extents
            .map(|(axis, &extent)| if axis < 2 { extent } else { 1 })
            .collect()
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        Ok((LayerProblem::Gate(GateProblem { shape }), input.to_vec()))
    }
}
