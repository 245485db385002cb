//! Layers of pointwise functions.

use alloc::vec::Vec;

use super::{GraphLayer, Layer, LayerProblem, constructors};
use crate::{ClampSpec, GeluApproximation, PointwiseSpec, SpecError};

constructors! {
    /// A clamp with both bounds.
    clamp(min: f64, max: f64) = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec { min: Some(min), max: Some(max) }));
    /// Negative values become 0.
    relu() = Layer::Pointwise(PointwiseSpec::Relu {});
    /// Values that are not above 0 are multiplied by `negative_slope`.
    leaky_relu(negative_slope: f64) = Layer::Pointwise(PointwiseSpec::LeakyRelu { negative_slope });
    /// Values times their sigmoid.
    silu() = Layer::Pointwise(PointwiseSpec::Silu {});
    /// Values times the normal distribution's cumulative probability at the value.
    gelu(approximate: GeluApproximation) = Layer::Pointwise(PointwiseSpec::Gelu { approximate });
    /// `1 / (1 + e^-x)`
    sigmoid() = Layer::Pointwise(PointwiseSpec::Sigmoid {});
    /// The hyperbolic tangent.
    tanh() = Layer::Pointwise(PointwiseSpec::Tanh {});
    /// Values times `clamp(x + 3, 0, 6) / 6`.
    hardswish() = Layer::Pointwise(PointwiseSpec::Hardswish {});
    /// Values that are not above 0 become `alpha * (e^x - 1)`.
    elu(alpha: f64) = Layer::Pointwise(PointwiseSpec::Elu { alpha });
    /// `ln(1 + e^(beta x)) / beta`, where `beta * x` is not above `threshold`.
    softplus(beta: f64, threshold: f64) = Layer::Pointwise(PointwiseSpec::Softplus { beta, threshold });
    /// Values times the hyperbolic tangent of `ln(1 + e^x)`.
    mish() = Layer::Pointwise(PointwiseSpec::Mish {});
    /// Values limited to an interval.
    hardtanh(min_val: f64, max_val: f64) = Layer::Pointwise(PointwiseSpec::Hardtanh { min_val, max_val });
    /// `clamp(x + 3, 0, 6) / 6`
    hardsigmoid() = Layer::Pointwise(PointwiseSpec::Hardsigmoid {});
    /// The smaller of a value and a constant.
    minimum(value: f64) = Layer::Pointwise(PointwiseSpec::Minimum { value });
    /// The larger of a value and a constant.
    maximum(value: f64) = Layer::Pointwise(PointwiseSpec::Maximum { value });
}

impl GraphLayer for PointwiseSpec {
    fn is_pointwise(&self) -> bool {
        true
    }

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
