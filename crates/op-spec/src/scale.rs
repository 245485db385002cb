//! Multiplication by one factor per channel.

use crate::error::SpecError;
use crate::shape::ChannelShape;

const OPERATOR: &str = "scale";

/// Multiplies channel `c` by `scale[c]`; PyTorch's `x * scale.view(-1, 1, 1)`. No attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ScaleSpec;

impl ScaleSpec {
    /// Checks the shapes of the input (any rank from 2) and the factors.
    ///
    /// # Errors
    /// Rank under 2; factors that are not one value per channel.
    pub fn problem(&self, input: &[usize], scale: &[usize]) -> Result<ScaleProblem, SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        shape.check_parameter(OPERATOR, "scale", Some(scale))?;
        Ok(ScaleProblem { shape })
    }
}

/// A scaling whose extents fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScaleProblem {
    /// Shape of input and output.
    pub shape: ChannelShape,
}

impl ScaleProblem {
    /// Returns the problem for an input of this shape.
    #[must_use]
    pub const fn new(shape: ChannelShape) -> Self {
        Self { shape }
    }
}
