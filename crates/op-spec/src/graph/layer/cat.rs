//! Concatenation of values along an axis.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::error::{Quantity, SpecError, at_least_one};
use crate::shape::AxisShape;

const OPERATOR: &str = "cat";

/// Concatenates values along the axis `dim`; see
/// [`torch.cat`](https://docs.pytorch.org/docs/stable/generated/torch.cat.html).
///
/// *Shapes*: all values have the same extents except on the axis `dim`, whose extents add up. Axis 0, the
/// batch, is refused. *Numerics*: none; every value is copied unchanged, including NaN.
///
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Graph, Layer};
///
/// let graph = Graph::builder("x", 8)
///     .layer("narrow", "x", Layer::conv2d("conv", 4, 1))
///     .layer("y", "narrow", Layer::cat(["x"], 1))
///     .build("y")?;
/// assert_eq!(graph.problem(&[2, 8, 5, 6])?.output_shape(), [2, 12, 5, 6]);
/// # Ok::<(), op_spec::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
#[non_exhaustive]
pub struct CatLayer {
    /// The names of the operands behind the first one. In a [`Graph`](crate::graph::Graph) they are any
    /// values, in a [`Chain`](crate::graph::Chain) further inputs. Further inputs have the shape of the first
    /// operand.
    pub inputs: Vec<String>,
    /// The axis of the concatenation, such as 1 for the channels. Axis 0, the batch, is refused.
    pub dim: usize,
}

impl Layer {
    /// Concatenates the first operand and the values of these names along the axis `dim`; see [`CatLayer`].
    #[must_use]
    pub fn cat(inputs: impl IntoIterator<Item = impl Into<String>>, dim: usize) -> Layer {
        Layer::Cat(CatLayer {
            inputs: inputs.into_iter().map(Into::into).collect(),
            dim,
        })
    }
}

/// A concatenation whose operands fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatProblem {
    /// The output's shape; its `extent` is the sum over all operands.
    pub shape: AxisShape,
    /// The axis.
    pub dim: usize,
}

impl GraphLayer for CatLayer {
    fn needs_channels(&self) -> bool {
        false
    }

    fn needs_batch(&self) -> bool {
        // `dim` counts the batch as axis 0.
        true
    }

    fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
        at_least_one(OPERATOR, Quantity::scalar("dim"), self.dim)?;
        at_least_one(OPERATOR, Quantity::scalar("inputs"), self.inputs.len())?;
        Ok(*given)
    }

    fn operands(&self) -> &[String] {
        &self.inputs
    }

    fn joined_axis(&self) -> Option<usize> {
        Some(self.dim)
    }

    fn problem(&self, joint: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = CatProblem {
            shape: AxisShape::new(OPERATOR, self.dim, joint)?,
            dim: self.dim,
        };
        Ok((LayerProblem::Cat(problem), joint.to_vec()))
    }
}
