//! A slice of an axis.

use crate::error::{Quantity, SpecError, at_least_one};
use crate::shape::AxisShape;

pub(crate) const OPERATOR: &str = "narrow";

/// Slices the axis `dim`: `length` indices from `start` on; see
/// [`torch.narrow`](https://docs.pytorch.org/docs/stable/generated/torch.narrow.html). PyTorch's `chunk` and
/// `split` are several such slices.
///
/// *Numerics*: none; every value is copied unchanged, including NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct NarrowSpec {
    /// The axis, such as 1 for the channels. Axis 0, the batch, is refused.
    pub dim: usize,
    /// The first index.
    pub start: usize,
    /// Number of indices.
    pub length: usize,
}

impl NarrowSpec {
    /// Returns the slice of `length` indices of the axis `dim` from `start` on.
    #[must_use]
    pub const fn new(dim: usize, start: usize, length: usize) -> Self {
        Self { dim, start, length }
    }

    /// Checks the shape of the input. An empty batch is accepted.
    ///
    /// # Errors
    /// `dim` is the batch, or an axis that the input does not have; a slice that is empty or ends beyond the
    /// axis; more than [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) elements.
    pub fn problem(&self, input: &[usize]) -> Result<NarrowProblem, SpecError> {
        let shape = AxisShape::new(OPERATOR, self.dim, input)?;
        self.check_extent(shape.extent)?;
        Ok(NarrowProblem { shape, spec: *self })
    }

    /// Refuses an empty slice, and one that ends beyond an axis of this extent.
    pub(crate) fn check_extent(&self, extent: usize) -> Result<(), SpecError> {
        at_least_one(OPERATOR, Quantity::scalar("length"), self.length)?;
        let end = self.start.saturating_add(self.length);
        match end <= extent {
            true => Ok(()),
            false => Err(SpecError::BeyondAxis {
                operator: OPERATOR,
                dim: self.dim,
                end,
                extent,
            }),
        }
    }
}

/// A slice of an input whose axis is long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NarrowProblem {
    /// The input's shape around the axis.
    pub shape: AxisShape,
    /// The slice.
    pub spec: NarrowSpec,
}
