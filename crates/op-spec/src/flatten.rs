//! Flattening of all axes behind the batch into one.

use crate::error::{RankRule, SpecError};
use crate::shape::elements;

const OPERATOR: &str = "flatten";

/// Merges all axes behind the batch into a single one; see
/// [`torch.flatten`](https://docs.pytorch.org/docs/stable/generated/torch.flatten.html) with a `start_dim` of
/// 1, the default of `torch.nn.Flatten`. No attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct FlattenSpec {}

impl FlattenSpec {
    /// Checks the shape of the input. An empty batch is accepted.
    ///
    /// # Errors
    /// Rank under 2; more than [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) elements.
    pub fn problem(&self, input: &[usize]) -> Result<FlattenProblem, SpecError> {
        samples(OPERATOR, input)
    }
}

/// Returns the number of samples, and of elements per sample.
pub(crate) fn samples(
    operator: &'static str,
    input: &[usize],
) -> Result<FlattenProblem, SpecError> {
    let (&[n, ref rest @ ..], 2..) = (input, input.len()) else {
        return Err(SpecError::Rank {
            operator,
            tensor: "input",
            actual: input.len(),
            rule: RankRule::AtLeast(2),
        });
    };
    elements(operator, "input", input)?;
    let features = elements(operator, "sample", rest)?;
    Ok(FlattenProblem { n, features })
}

/// A flattening of an input of valid shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlattenProblem {
    /// Samples.
    pub n: usize,
    /// Elements of a sample.
    pub features: usize,
}

impl FlattenProblem {
    /// Shape of the output.
    #[must_use]
    pub const fn output_shape(&self) -> [usize; 2] {
        [self.n, self.features]
    }
}
