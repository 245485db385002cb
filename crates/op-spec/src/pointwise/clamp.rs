//! The bounds of a clamp, which kernels of several operators share.

use crate::error::SpecError;
use crate::shape::elements;

const CLAMP: &str = "clamp";

/// Bounds of a clamp; see
/// [`torch.clamp`](https://docs.pytorch.org/docs/stable/generated/torch.clamp.html).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct ClampSpec {
    /// The lower bound.
    #[cfg_attr(
        feature = "graph",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::attributes::lower",
            default
        )
    )]
    pub min: Option<f64>,
    /// The upper bound, which wins over a larger `min`.
    #[cfg_attr(
        feature = "graph",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::attributes::upper",
            default
        )
    )]
    pub max: Option<f64>,
}

impl ClampSpec {
    /// Returns the bounds, one of which may be absent.
    ///
    /// ```
    /// # mod convfuse { pub mod spec { pub use op_spec::*; } }
    /// use convfuse::spec::ClampSpec;
    ///
    /// assert_eq!(ClampSpec::new(0.0, None).bounds()?, (0.0, f64::INFINITY));
    /// assert_eq!(ClampSpec::new(0.0, 6.0).bounds()?, (0.0, 6.0));
    /// # Ok::<(), op_spec::SpecError>(())
    /// ```
    #[must_use]
    pub fn new(min: impl Into<Option<f64>>, max: impl Into<Option<f64>>) -> Self {
        Self {
            min: min.into(),
            max: max.into(),
        }
    }

    /// Checks the bounds and counts the elements of an input of any rank.
    ///
    /// # Errors
    /// Neither bound is given.
    pub fn problem(&self, input: &[usize]) -> Result<ClampProblem, SpecError> {
        let (min, max) = self.bounds()?;
        Ok(ClampProblem {
            len: elements(CLAMP, "input", input)?,
            min,
            max,
        })
    }

    /// Returns both bounds as numbers. PyTorch's result is `min(max(x, lower), upper)` with a `min` and a
    /// `max` that propagate NaN.
    ///
    /// An absent bound is infinite. As in PyTorch, a NaN bound turns every value into NaN if both bounds are
    /// given, and is ignored if it is the only one.
    ///
    /// # Errors
    /// Neither bound is given.
    pub fn bounds(&self) -> Result<(f64, f64), SpecError> {
        let usable = |bound: f64, absent: f64| if bound.is_nan() { absent } else { bound };
        match (self.min, self.max) {
            (Some(min), Some(max)) => Ok((min, max)),
            (Some(min), None) => Ok((usable(min, f64::NEG_INFINITY), f64::INFINITY)),
            (None, Some(max)) => Ok((f64::NEG_INFINITY, usable(max, f64::INFINITY))),
            (None, None) => Err(SpecError::NoBound { operator: CLAMP }),
        }
    }
}

/// A clamp with both bounds resolved, see [`ClampSpec::bounds`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClampProblem {
    /// Elements of input and output.
    pub len: usize,
    /// Lower bound, applied first.
    pub min: f64,
    /// Upper bound, applied last.
    pub max: f64,
}
