//! Another shape of the axes behind the batch.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Flow, GraphLayer, Layer, LayerProblem};
use crate::error::{RankRule, SpecError};
use crate::flatten::{FlattenProblem, samples};
use crate::shape::{MAX_RANK, Shape, elements};

const OPERATOR: &str = "reshape";

/// Keeps the values and their order and changes the axes behind the batch; see
/// [`torch.reshape`](https://docs.pytorch.org/docs/stable/generated/torch.reshape.html), `torch.nn.Unflatten`
/// and `torch.nn.Flatten`.
///
/// *Numerics*: none; every value is copied unchanged, including NaN.
///
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Chain, Layer};
///
/// let chain = Chain::new(6, (
///     Layer::linear("seed", 6, 8 * 4 * 4),
///     Layer::reshape(&[8, 4, 4]),
///     Layer::conv_transpose2d("up", 3, 2).stride(2),
/// ))?;
/// assert_eq!(chain.problem(&[2, 6])?.output_shape(), [2, 3, 8, 8]);
/// # Ok::<(), op_spec::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of attributes")]
#[non_exhaustive]
pub struct ReshapeLayer {
    /// The extents behind the batch, the channels first. One of them may be -1: it follows from the others.
    pub shape: Vec<isize>,
}

impl Layer {
    /// Reshapes to these extents behind the batch, of which one may be -1; see [`ReshapeLayer`].
    #[must_use]
    pub fn reshape(shape: &[isize]) -> Layer {
        Layer::Reshape(ReshapeLayer {
            shape: shape.to_vec(),
        })
    }
}

/// A reshape of an input with the right number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReshapeProblem {
    /// Shape of the output.
    pub output: Shape,
}

impl ReshapeLayer {
    /// Returns the product of the known extents. Refuses extents that no shape has.
    fn known(&self) -> Result<usize, SpecError> {
        let mut given = Vec::with_capacity(self.shape.len());
        for (axis, &extent) in self.shape.iter().enumerate() {
            match usize::try_from(extent) {
                Ok(extent @ 1..) => given.push(extent),
                // The first -1: all extents before it are known.
                Err(_) if extent == -1 && given.len() == axis => {}
                _ => {
                    return Err(SpecError::NoExtent {
                        operator: OPERATOR,
                        axis,
                        extent,
                    });
                }
            }
        }
        let rule = match self.shape.len() {
            0 => RankRule::AtLeast(1),
            1..MAX_RANK => return elements(OPERATOR, "output", &given),
            _ => RankRule::AtMost(MAX_RANK - 1),
        };
        Err(SpecError::Rank {
            operator: OPERATOR,
            tensor: "shape",
            actual: self.shape.len(),
            rule,
        })
    }
}

impl GraphLayer for ReshapeLayer {
    fn needs_channels(&self) -> bool {
        false
    }

    fn needs_batch(&self) -> bool {
        true
    }

    fn lost_dimensions(&self) -> Option<usize> {
        None
    }

    fn flow(&self, _: &Flow) -> Result<Flow, SpecError> {
        self.known()?;
        Ok(Flow {
            // An extent of -1 depends on the input's extents.
            channels: usize::try_from(self.shape[0]).ok(),
            dimensions: Some(self.shape.len() - 1),
        })
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let FlattenProblem { n, features } = samples(OPERATOR, input)?;
        let known = self.known()?;
        let left = self.shape.contains(&-1).then_some(features / known);
        if known * left.unwrap_or(1) != features {
            return Err(SpecError::OtherElements {
                operator: OPERATOR,
                actual: features,
                expected: known,
                multiple: left.is_some(),
            });
        }
        let extent = |&extent: &isize| usize::try_from(extent).ok().or(left).unwrap_or(0);
        let output: Vec<usize> = [n]
            .into_iter()
            .chain(self.shape.iter().map(extent))
            .collect();
        elements(OPERATOR, "output", &output)?;
        let problem = ReshapeProblem {
            output: Shape::of(&output),
        };
        Ok((LayerProblem::Reshape(problem), output))
    }
}
