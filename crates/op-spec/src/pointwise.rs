//! Pointwise functions: what is done with each value by itself, wherever it stands.
//!
//! A new function is a variant of [`PointwiseSpec`] and an arm of each of its methods.

use crate::error::SpecError;
use crate::launch::elementwise::Bounds;
use crate::shape::elements;

/// A function of single values, with PyTorch's attributes.
///
/// A function without attributes has braces, so that it is written down like all others: `{"relu": {}}`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "chain",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
pub enum PointwiseSpec {
    /// Values limited to an interval.
    Clamp(ClampSpec),
    /// Negative values become 0; see
    /// [`torch.nn.functional.relu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html).
    Relu {},
    /// Negative values are multiplied by a slope; see
    /// [`torch.nn.LeakyReLU`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html).
    LeakyRelu {
        /// The factor of what is not above 0, any number; PyTorch's default is 0.01.
        #[cfg_attr(feature = "chain", serde(default = "layer::default_negative_slope"))]
        negative_slope: f64,
    },
}

impl PointwiseSpec {
    /// The operator's name.
    #[must_use]
    pub const fn operator(&self) -> &'static str {
        match self {
            Self::Clamp(_) => "clamp",
            Self::Relu {} => "relu",
            Self::LeakyRelu { .. } => "leaky_relu",
        }
    }

    /// Checks what no input can make up for.
    ///
    /// # Errors
    /// A clamp without bounds.
    pub fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Clamp(clamp) => clamp.bounds().map(drop),
            Self::Relu {} | Self::LeakyRelu { .. } => Ok(()),
        }
    }

    /// Whether a larger value never gives a smaller one, so that a maximum may change places with the function.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        match self {
            Self::Clamp(_) | Self::Relu {} => true,
            // A slope of 0 makes NaN of minus infinity alone, an infinite one of 0 alone. Kernels round it to f32.
            Self::LeakyRelu { negative_slope } => {
                let slope = *negative_slope as f32;
                slope > 0.0 && slope < f32::INFINITY
            }
        }
    }

    /// The clamp that computes the same, if there is one. Kernels that clamp do such a function, too.
    #[must_use]
    pub const fn as_clamp(&self) -> Option<ClampSpec> {
        match self {
            Self::Clamp(clamp) => Some(*clamp),
            Self::Relu {} => Some(ClampSpec {
                min: Some(0.0),
                max: None,
            }),
            // A slope of 0 makes no clamp of it either: minus infinity times 0 is NaN.
            Self::LeakyRelu { .. } => None,
        }
    }

    /// Checks the attributes and counts the elements of an input of any rank.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn problem(&self, input: &[usize]) -> Result<PointwiseProblem, SpecError> {
        self.check()?;
        Ok(PointwiseProblem {
            function: *self,
            len: elements(self.operator(), "input", input)?,
        })
    }
}

/// A pointwise function with attributes that are valid.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PointwiseProblem {
    /// The function.
    pub function: PointwiseSpec,
    /// Elements of input and output.
    pub len: usize,
}

impl PointwiseProblem {
    /// The clamp that computes the same, if there is one.
    #[must_use]
    pub fn as_clamp(&self) -> Option<ClampProblem> {
        let (min, max) = self.function.as_clamp()?.bounds().ok()?;
        Some(ClampProblem {
            len: self.len,
            min,
            max,
        })
    }
}

const CLAMP: &str = "clamp";

/// Bounds of a clamp; see
/// [`torch.clamp`](https://docs.pytorch.org/docs/stable/generated/torch.clamp.html).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "chain",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct ClampSpec {
    /// Values below become this.
    #[cfg_attr(feature = "chain", serde(skip_serializing_if = "Option::is_none"))]
    pub min: Option<f64>,
    /// Values above become this; wins where it is below `min`.
    #[cfg_attr(feature = "chain", serde(skip_serializing_if = "Option::is_none"))]
    pub max: Option<f64>,
}

impl ClampSpec {
    /// Both bounds.
    #[must_use]
    pub const fn new(min: f64, max: f64) -> Self {
        Self {
            min: Some(min),
            max: Some(max),
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

    /// Both bounds as numbers, such that `min(max(x, lower), upper)` with a NaN-keeping `min` and
    /// `max` is what PyTorch computes.
    ///
    /// An absent bound is infinite. A NaN bound turns every value into NaN where both bounds are
    /// given, and is ignored where it is the only one; PyTorch does both.
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

impl ClampProblem {
    /// The bounds as kernels take them, rounded to f32.
    #[must_use]
    pub const fn kernel_bounds(&self) -> Bounds {
        Bounds {
            min: self.min as f32,
            max: self.max as f32,
        }
    }
}

#[cfg(feature = "chain")]
mod layer {
    use alloc::vec::Vec;

    use super::{ClampSpec, PointwiseSpec};
    use crate::SpecError;
    use crate::chain::layer::{ChainLayer, Layer, LayerProblem};

    impl Layer {
        /// A clamp with both bounds.
        #[must_use]
        pub const fn clamp(min: f64, max: f64) -> Layer {
            Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(min, max)))
        }

        /// Negative values become 0.
        #[must_use]
        pub const fn relu() -> Layer {
            Layer::Pointwise(PointwiseSpec::Relu {})
        }

        /// Values that are not above 0 are multiplied by `negative_slope`.
        #[must_use]
        pub const fn leaky_relu(negative_slope: f64) -> Layer {
            Layer::Pointwise(PointwiseSpec::LeakyRelu { negative_slope })
        }
    }

    pub(super) const fn default_negative_slope() -> f64 {
        0.01
    }

    impl ChainLayer for PointwiseSpec {
        fn needs_channels(&self) -> bool {
            false
        }

        fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
            self.check().map(|()| Some(channels))
        }

        fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
            let problem = self.problem(input)?;
            Ok((LayerProblem::Pointwise(problem), input.to_vec()))
        }
    }
}
