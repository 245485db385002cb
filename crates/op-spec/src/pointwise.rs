//! Pointwise functions: functions of each value alone, independent of its position.
//!
//! A new function is a variant of [`PointwiseSpec`] and an arm of each of its methods.

mod clamp;
#[cfg(feature = "graph")]
mod defaults;
mod gelu;

pub use clamp::{ClampProblem, ClampSpec};
pub use gelu::GeluApproximation;

use crate::error::SpecError;
use crate::shape::elements;

/// A function of single values, with PyTorch's attributes.
///
/// Variants without attributes have braces so that all functions have the same form in files: `{"relu": {}}`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        rename_all = "snake_case",
        deny_unknown_fields,
        expecting = "an object of attributes"
    )
)]
#[non_exhaustive]
pub enum PointwiseSpec {
    /// Values limited to an interval.
    Clamp(ClampSpec),
    /// Negative values become 0; see
    /// [`torch.nn.functional.relu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.relu.html).
    Relu {},
    /// Negative values are multiplied by a slope; see
    /// [`torch.nn.LeakyReLU`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html).
    LeakyRelu {
        /// The factor of values not above 0, any number; PyTorch's default is 0.01.
        #[cfg_attr(
            feature = "graph",
            serde(
                default = "defaults::negative_slope",
                serialize_with = "crate::attributes::number"
            )
        )]
        negative_slope: f64,
    },
    /// Values times their sigmoid; see
    /// [`torch.nn.functional.silu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.silu.html).
    Silu {},
    /// Values times the normal distribution's cumulative probability at the value; see
    /// [`torch.nn.functional.gelu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html).
    Gelu {
        /// The computation of the cumulative distribution; PyTorch's default is exact.
        #[cfg_attr(feature = "graph", serde(default))]
        approximate: GeluApproximation,
    },
    /// The logistic function; see
    /// [`torch.sigmoid`](https://docs.pytorch.org/docs/stable/generated/torch.sigmoid.html).
    Sigmoid {},
    /// The hyperbolic tangent; see
    /// [`torch.tanh`](https://docs.pytorch.org/docs/stable/generated/torch.tanh.html).
    Tanh {},
    /// Values times a piecewise linear sigmoid; see
    /// [`torch.nn.functional.hardswish`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardswish.html).
    Hardswish {},
    /// Negative values approach `-alpha`; see
    /// [`torch.nn.functional.elu`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.elu.html).
    Elu {
        /// The factor of `e^x - 1` for values not above 0, any number; PyTorch's default is 1.
        #[cfg_attr(
            feature = "graph",
            serde(
                default = "defaults::alpha",
                serialize_with = "crate::attributes::number"
            )
        )]
        alpha: f64,
    },
    /// A smooth maximum with 0; see
    /// [`torch.nn.functional.softplus`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softplus.html).
    Softplus {
        /// The sharpness of the bend, any number; PyTorch's default is 1.
        #[cfg_attr(
            feature = "graph",
            serde(
                default = "defaults::beta",
                serialize_with = "crate::attributes::number"
            )
        )]
        beta: f64,
        /// The bound of `beta * x` above which `x` stays unchanged; PyTorch's default is 20.
        #[cfg_attr(
            feature = "graph",
            serde(
                default = "defaults::threshold",
                serialize_with = "crate::attributes::number"
            )
        )]
        threshold: f64,
    },
    /// Values times the hyperbolic tangent of their softplus; see
    /// [`torch.nn.functional.mish`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mish.html).
    Mish {},
    /// Values limited to an interval whose bounds are both given; see
    /// [`torch.nn.functional.hardtanh`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardtanh.html).
    Hardtanh {
        /// The lower bound, not above the upper one; PyTorch's default is -1.
        #[cfg_attr(
            feature = "graph",
            serde(
                default = "defaults::min_val",
                serialize_with = "crate::attributes::number"
            )
        )]
        min_val: f64,
        /// The upper bound; PyTorch's default is 1.
        #[cfg_attr(
            feature = "graph",
            serde(
                default = "defaults::max_val",
                serialize_with = "crate::attributes::number"
            )
        )]
        max_val: f64,
    },
    /// A piecewise linear sigmoid; see
    /// [`torch.nn.functional.hardsigmoid`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hardsigmoid.html).
    Hardsigmoid {},
    /// Values plus a constant; see
    /// [`torch.add`](https://docs.pytorch.org/docs/stable/generated/torch.add.html).
    Add {
        /// The constant, any number.
        #[cfg_attr(feature = "graph", serde(serialize_with = "crate::attributes::number"))]
        value: f64,
    },
    /// Values minus a constant; see
    /// [`torch.sub`](https://docs.pytorch.org/docs/stable/generated/torch.sub.html).
    Sub {
        /// The constant, any number.
        #[cfg_attr(feature = "graph", serde(serialize_with = "crate::attributes::number"))]
        value: f64,
    },
    /// Values times a constant; see
    /// [`torch.mul`](https://docs.pytorch.org/docs/stable/generated/torch.mul.html).
    Mul {
        /// The constant, any number.
        #[cfg_attr(feature = "graph", serde(serialize_with = "crate::attributes::number"))]
        value: f64,
    },
    /// Values divided by a constant; see
    /// [`torch.div`](https://docs.pytorch.org/docs/stable/generated/torch.div.html) without `rounding_mode`.
    Div {
        /// The constant, any number.
        #[cfg_attr(feature = "graph", serde(serialize_with = "crate::attributes::number"))]
        value: f64,
    },
    /// The smaller of a value and a constant; see
    /// [`torch.minimum`](https://docs.pytorch.org/docs/stable/generated/torch.minimum.html).
    Minimum {
        /// The constant, any number; NaN makes all values NaN.
        #[cfg_attr(feature = "graph", serde(serialize_with = "crate::attributes::number"))]
        value: f64,
    },
    /// The larger of a value and a constant; see
    /// [`torch.maximum`](https://docs.pytorch.org/docs/stable/generated/torch.maximum.html).
    Maximum {
        /// The constant, any number; NaN makes all values NaN.
        #[cfg_attr(feature = "graph", serde(serialize_with = "crate::attributes::number"))]
        value: f64,
    },
}

impl PointwiseSpec {
    /// The names of all functions, but for [arithmetic](crate::ArithmeticOp).
    #[cfg(feature = "graph")]
    pub(crate) const OPERATORS: &[&str] = &[
        "clamp",
        "relu",
        "leaky_relu",
        "silu",
        "gelu",
        "sigmoid",
        "tanh",
        "hardswish",
        "elu",
        "softplus",
        "mish",
        "hardtanh",
        "hardsigmoid",
        "minimum",
        "maximum",
    ];

    /// The operator's name.
    #[must_use]
    pub const fn operator(&self) -> &'static str {
        match self {
            Self::Clamp(_) => "clamp",
            Self::Relu {} => "relu",
            Self::LeakyRelu { .. } => "leaky_relu",
            Self::Silu {} => "silu",
            Self::Gelu { .. } => "gelu",
            Self::Sigmoid {} => "sigmoid",
            Self::Tanh {} => "tanh",
            Self::Hardswish {} => "hardswish",
            Self::Elu { .. } => "elu",
            Self::Softplus { .. } => "softplus",
            Self::Mish {} => "mish",
            Self::Hardtanh { .. } => "hardtanh",
            Self::Hardsigmoid {} => "hardsigmoid",
            Self::Add { .. } => "add",
            Self::Sub { .. } => "sub",
            Self::Mul { .. } => "mul",
            Self::Div { .. } => "div",
            Self::Minimum { .. } => "minimum",
            Self::Maximum { .. } => "maximum",
        }
    }

    /// Checks the attributes before any input shape is known.
    ///
    /// # Errors
    /// A clamp without bounds; a hardtanh whose lower bound is above the upper one.
    pub fn check(&self) -> Result<(), SpecError> {
        match *self {
            Self::Clamp(clamp) => clamp.bounds().map(drop),
            Self::Hardtanh { min_val, max_val } if min_val > max_val => {
                Err(SpecError::CrossedBounds {
                    operator: self.operator(),
                    min_val,
                    max_val,
                })
            }
            // PyTorch accepts any attributes of the other functions.
            _ => Ok(()),
        }
    }

    /// Whether a larger value never gives a smaller one, so that a maximum may change places with the
    /// function.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        match self {
            Self::Clamp(_)
            | Self::Relu {}
            | Self::Sigmoid {}
            | Self::Tanh {}
            | Self::Hardtanh { .. }
            | Self::Hardsigmoid {}
            | Self::Minimum { .. }
            | Self::Maximum { .. } => true,
            // The factor (of a division: the reciprocal) has the limits of a slope, below. A summand of
            // infinity turns minus infinity alone into NaN. Minus infinity turns infinity alone into NaN,
            // which keeps the order.
            Self::Add { .. } | Self::Sub { .. } | Self::Mul { .. } | Self::Div { .. } => {
                match self.as_affine() {
                    Some([factor, summand]) => {
                        factor > 0.0 && factor < f32::INFINITY && summand < f32::INFINITY
                    }
                    None => false,
                }
            }
            // Kernels round the slope to f32. A slope of 0 turns minus infinity alone into NaN, an infinite
            // slope 0 alone.
            Self::LeakyRelu { negative_slope } => {
                let slope = *negative_slope as f32;
                slope > 0.0 && slope < f32::INFINITY
            }
            Self::Elu { alpha } => {
                let alpha = *alpha as f32;
                alpha >= 0.0 && alpha < f32::INFINITY
            }
            // Above a low threshold, `x` is less than the function's values just below it. A beta of 0 turns
            // infinities alone into NaN, an infinite beta 0 alone.
            Self::Softplus { beta, threshold } => {
                let beta = *beta as f32;
                *threshold >= 20.0 && beta.is_finite() && beta != 0.0
            }
            // These functions have a minimum, and minus infinity gives NaN.
            Self::Silu {} | Self::Gelu { .. } | Self::Hardswish {} | Self::Mish {} => false,
        }
    }

    /// Returns the clamp that computes the same function, if there is one. Kernels with a clamp compute it,
    /// too.
    #[must_use]
    pub const fn as_clamp(&self) -> Option<ClampSpec> {
        match self {
            Self::Clamp(clamp) => Some(*clamp),
            Self::Relu {} => Some(ClampSpec {
                min: Some(0.0),
                max: None,
            }),
            Self::Hardtanh { min_val, max_val } => Some(ClampSpec {
                min: Some(*min_val),
                max: Some(*max_val),
            }),
            // Two NaN bounds turn all values into NaN; a single NaN bound would be ignored.
            Self::Minimum { value } => Some(ClampSpec {
                min: if value.is_nan() { Some(*value) } else { None },
                max: Some(*value),
            }),
            Self::Maximum { value } => Some(ClampSpec {
                min: Some(*value),
                max: if value.is_nan() { Some(*value) } else { None },
            }),
            // Not even a slope of 0 is a clamp: minus infinity times 0 is NaN.
            Self::LeakyRelu { .. } => None,
            Self::Silu {}
            | Self::Gelu { .. }
            | Self::Sigmoid {}
            | Self::Tanh {}
            | Self::Hardswish {}
            | Self::Elu { .. }
            | Self::Softplus { .. }
            | Self::Mish {}
            | Self::Hardsigmoid {}
            | Self::Add { .. }
            | Self::Sub { .. }
            | Self::Mul { .. }
            | Self::Div { .. } => None,
        }
    }

    /// Returns the factor and the summand of `fma(x, factor, summand)`, if the function is arithmetic with a
    /// constant.
    ///
    /// The constant is rounded to f32, as PyTorch rounds a scalar. A factor of 1 and a summand of -0 change
    /// neither a value nor its sign, so all operations but a division are bit-identical to the operation
    /// itself. A division is a product with the constant's reciprocal in f32. PyTorch computes the same
    /// product on a GPU but divides on a CPU.
    #[must_use]
    pub const fn as_affine(&self) -> Option<[f32; 2]> {
        match *self {
            Self::Add { value } => Some([1.0, value as f32]),
            Self::Sub { value } => Some([1.0, -(value as f32)]),
            Self::Mul { value } => Some([value as f32, -0.0]),
            Self::Div { value } => Some([1.0 / (value as f32), -0.0]),
            _ => None,
        }
    }

    /// Checks the attributes and counts the elements of an input of any rank.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check).
    pub fn problem(&self, input: &[usize]) -> Result<PointwiseProblem, SpecError> {
        self.check()?;
        Ok(PointwiseProblem {
            function: *self,
            len: elements(self.operator(), "input", input)?,
        })
    }
}

/// A pointwise function with valid attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PointwiseProblem {
    /// The function.
    pub function: PointwiseSpec,
    /// Elements of input and output.
    pub len: usize,
}

impl PointwiseProblem {
    /// Returns the clamp that computes the same function, if there is one.
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
