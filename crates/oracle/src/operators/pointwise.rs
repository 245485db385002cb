//! The pointwise functions.
//!
//! | function | definition | condition | passes on an input's error `t` as |
//! |---|---|---|---|
//! | clamp | `y = min(max(x, lower), upper)`; NaN stays, and where the bounds cross the upper one wins | `abs(y)`, for the rounding of the bounds | `t`, nothing where a bound surely holds |
//! | relu | `y = max(x, 0)`; NaN stays | 0 | `t`, nothing where `x` is surely negative |
//! | leaky_relu | `y = x` above 0, else `negative_slope * x`; NaN stays | `abs(y)`, for the rounding of slope and product, 0 where `x` is surely positive | `t` where `x` is surely positive, `abs(negative_slope) * t` where it is surely negative, else the larger |
//!
//! | silu | `y = x / (1 + e^-x)` | `abs(y)` | `1.1 t` |
//! | gelu | `y = x * P(x)`, the part of a normal distribution below `x`, or `P(x) = 1 / (1 + e^(-2 u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)` | `abs(y)` | `1.13 t` |
//! | sigmoid | `y = 1 / (1 + e^-x)` | `abs(y)` | `t / 4` |
//! | tanh | `y = tanh(x)` | `abs(y)` | `t` |
//! | hardswish | `y = x * clamp(x + 3, 0, 6) / 6` | `abs(y)` | `1.5 t` |
//! | elu | `y = x` above 0, else `alpha * (e^x - 1)` | `abs(y)`, 0 where `x` is surely positive | `t`, `abs(alpha) * t` if that is more and `x` not surely positive |
//! | softplus | `y = x` where `beta * x > threshold`, else `ln(1 + e^(beta x)) / beta` | `(1 + abs(beta x)) * abs(y)`, for the rounding of `beta` | `t`; what is missing above the threshold, where `x` may be on either side |
//! | mish | `y = x * tanh(ln(1 + e^x))` | `abs(y)` | `1.1 t` |
//! | hardtanh | as clamp | as clamp | as clamp |
//! | hardsigmoid | `y = clamp(x + 3, 0, 6) / 6` | `abs(y)` | `t / 6` |
//! | add, sub | `y = x + value`, `y = x - value` | `abs(y) + abs(value)`, for the rounding of the value | `t` |
//! | mul, div | `y = x * value`, `y = x / value` | `abs(y)` | `abs(value) * t`, `t / abs(value)` |
//! | minimum, maximum | `y = min(x, value)`, `y = max(x, value)`; NaN stays, a value that is NaN wins | `abs(y)`, for the rounding of the value | `t`, nothing where the value surely wins |
//!
//! From silu on, `y` is computed from exponentials, polynomials and quotients. These are some 16 sequential
//! operations without cancellation, so all errors are relative to `y`, even in the tails. For 16-bit types
//! they are approximations with an error of their own (`Precision::functions`). NaN stays. A
//! function that is a product with `x` gives NaN for minus infinity, as in PyTorch. PyTorch's float64
//! results in golden files add 1 to an error function or tangent near -1. The tolerance of gelu includes
//! this float64 rounding times `abs(x)`.
//!
//! A new function requires a row here, an arm of [`Operator::reference`] and of [`Operator::tolerance`], and
//! an entry of `CASES` in `cases.rs`, which also creates its tests.

use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

use super::operator::{Given, Operator, chained};
use crate::Precision;
use ndarray::{ArrayD, Zip};
use op_spec::{GeluApproximation, PointwiseProblem, PointwiseSpec};

const UNKNOWN: &str = "every function is defined here";

impl Operator for PointwiseProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        x.mapv(|v| match self.function {
            _ if v.is_nan() => v,
            PointwiseSpec::Clamp(clamp) => {
                let (min, max) = clamp.bounds().expect("a problem has bounds");
                if min.is_nan() || max.is_nan() {
                    f64::NAN
                } else {
                    v.max(min).min(max)
                }
            }
            PointwiseSpec::Relu {} => v.max(0.0),
            PointwiseSpec::LeakyRelu { .. } if v > 0.0 => v,
            PointwiseSpec::LeakyRelu { negative_slope } => v * negative_slope,
            PointwiseSpec::Silu {} => v * sigmoid(v),
            PointwiseSpec::Gelu {
                approximate: GeluApproximation::None,
            } => v * normal_below(v),
            PointwiseSpec::Gelu {
                approximate: GeluApproximation::Tanh,
            } => v * sigmoid(2.0 * (2.0 / PI).sqrt() * (v + 0.044715 * v * v * v)),
            PointwiseSpec::Sigmoid {} => sigmoid(v),
            PointwiseSpec::Tanh {} => v.tanh(),
            PointwiseSpec::Hardswish {} => v * (v + 3.0).clamp(0.0, 6.0) / 6.0,
            PointwiseSpec::Elu { .. } if v > 0.0 => v,
            PointwiseSpec::Elu { alpha } => alpha * v.exp_m1(),
            PointwiseSpec::Softplus { beta, threshold } if v * beta > threshold => v,
            PointwiseSpec::Softplus { beta, .. } => softplus(v * beta) / beta,
            PointwiseSpec::Mish {} => v * softplus(v).tanh(),
            PointwiseSpec::Hardtanh { min_val, max_val } => v.clamp(min_val, max_val),
            PointwiseSpec::Hardsigmoid {} => (v + 3.0).clamp(0.0, 6.0) / 6.0,
            PointwiseSpec::Add { value } => v + value,
            PointwiseSpec::Sub { value } => v - value,
            PointwiseSpec::Mul { value } => v * value,
            PointwiseSpec::Div { value } => v / value,
            PointwiseSpec::Minimum { value } | PointwiseSpec::Maximum { value }
                if value.is_nan() =>
            {
                value
            }
            PointwiseSpec::Minimum { value } => v.min(value),
            PointwiseSpec::Maximum { value } => v.max(value),
            _ => unreachable!("{UNKNOWN}"),
        })
    }

    fn tolerance(&self, of: &Given<'_>, mut t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { x, y, .. } = of;
        let unit = chained(16) * precision.arithmetic + precision.functions;
        // The passed-on error, and the rounding of a value with this error.
        let smooth = |t: f64, y: &f64| t + unit * (y.abs() + t) + precision.functions_underflow;
        Zip::from(&mut t)
            .and(x)
            .and(y)
            .for_each(|t, &x, y| match self.function {
                PointwiseSpec::Clamp(clamp) => {
                    let (min, max) = clamp.bounds().expect("a problem has bounds");
                    if x + *t <= min || x - *t >= max {
                        *t = 0.0;
                    }
                    *t += precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Hardtanh { min_val, max_val } => {
                    if x + *t <= min_val || x - *t >= max_val {
                        *t = 0.0;
                    }
                    *t += precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Minimum { value } => {
                    if x - *t >= value {
                        *t = 0.0;
                    }
                    *t += precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Maximum { value } => {
                    if x + *t <= value {
                        *t = 0.0;
                    }
                    *t += precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Hardsigmoid {} => {
                    *t /= 6.0;
                    *t += chained(0) * precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Add { value } | PointwiseSpec::Sub { value } => {
                    let rounded = y.abs() + value.abs() + *t;
                    *t += chained(0) * precision.arithmetic * rounded;
                }
                PointwiseSpec::Mul { value } => {
                    *t *= value.abs();
                    *t += chained(0) * precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Div { value } => {
                    if *t > 0.0 {
                        *t /= value.abs();
                    }
                    *t += chained(0) * precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Relu {} => {
                    if x + *t <= 0.0 {
                        *t = 0.0;
                    }
                }
                PointwiseSpec::LeakyRelu { negative_slope } => {
                    if x - *t <= 0.0 {
                        let slope = negative_slope.abs();
                        *t *= if x + *t <= 0.0 { slope } else { slope.max(1.0) };
                        *t += chained(0) * precision.arithmetic * (y.abs() + *t);
                    }
                }
                PointwiseSpec::Silu {} | PointwiseSpec::Mish {} => *t = smooth(1.1 * *t, y),
                PointwiseSpec::Gelu { .. } => {
                    *t = smooth(1.13 * *t, y) + 2.0 * f64::EPSILON * x.abs();
                }
                PointwiseSpec::Sigmoid {} => *t = smooth(*t / 4.0, y),
                PointwiseSpec::Tanh {} => *t = smooth(*t, y),
                PointwiseSpec::Hardswish {} => {
                    *t *= 1.5;
                    *t += chained(0) * precision.arithmetic * (y.abs() + *t);
                }
                PointwiseSpec::Elu { alpha } => {
                    if x - *t <= 0.0 {
                        *t = smooth(*t * alpha.abs().max(1.0), y);
                    }
                }
                PointwiseSpec::Softplus { beta, threshold } => {
                    let product = x * beta;
                    // Beta, the product and the threshold are rounded. An f32 product may be flushed to 0.
                    let rounded = 2.0 * product.abs() + threshold.abs().min(f64::MAX);
                    let either =
                        *t * beta.abs() + precision.arithmetic * rounded + Precision::F32.underflow;
                    if (product - threshold).abs() <= either {
                        *t += (softplus(threshold) - threshold).abs() / beta.abs();
                    }
                    // Far below 0, `y` is 0 and the product may be infinite.
                    *t += (1.0 + product.abs().min(1e3)) * unit * (y.abs() + *t);
                    *t += precision.functions_underflow;
                }
                _ => unreachable!("{UNKNOWN}"),
            });
        t
    }

    fn cost(&self) -> u64 {
        self.len as u64
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + e^x)`, without overflow for large `x`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The standard normal distribution function at `x`, with full relative precision for small results.
fn normal_below(x: f64) -> f64 {
    let t = x.abs() / SQRT_2;
    let beyond = if t < 2.0 {
        // erf(t) = 2 / sqrt(pi) * e^(-t^2) * (t + 2 t^3 / 3 + 4 t^5 / (3 * 5) + ..)
        let (mut term, mut sum) = (t, t);
        for n in 1..100 {
            term *= 2.0 * t * t / f64::from(2 * n + 1);
            let before = sum;
            sum += term;
            // Stop when a term no longer changes the sum. The terms decrease.
            if sum == before {
                break;
            }
        }
        1.0 - FRAC_2_SQRT_PI * (-t * t).exp() * sum
    } else {
        // erfc(t) = e^(-t^2) / sqrt(pi) / (t + 1/2 / (t + 2/2 / (t + 3/2 / (t + ..))))
        // If the exponential underflows to 0, the result is 0 regardless of the divisor.
        if (-t * t).exp() == 0.0 {
            return if x < 0.0 { 0.0 } else { 1.0 };
        }
        let fraction = (1..200).rev().fold(t, |f, k| t + f64::from(k) / 2.0 / f);
        (-t * t).exp() / PI.sqrt() / fraction
    };
    if x < 0.0 {
        beyond / 2.0
    } else {
        1.0 - beyond / 2.0
    }
}

mod cases;

pub(crate) use cases::CASES;

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::ClampSpec;
    use op_spec::graph::{Layer, LayerProblem};

    use super::*;
    use crate::Bounded;
    use crate::cases::row;

    #[test]
    fn bounds_that_cross_or_are_nan_do_what_they_do_in_pytorch() {
        let x = array![-1.0, 0.5, 2.0, f64::NAN].into_dyn();
        let clamped = |min, max| {
            let clamp = PointwiseSpec::Clamp(ClampSpec::new(min, max));
            clamp.problem(x.shape()).unwrap().reference(&x, &[])
        };
        let crossed = clamped(Some(1.0), Some(0.0));
        assert!(crossed.iter().take(3).all(|&v| v == 0.0) && crossed[3].is_nan());
        let nan = clamped(Some(f64::NAN), Some(1.0));
        assert!(nan.iter().all(|v| v.is_nan()));
        let ignored = clamped(None, Some(f64::NAN));
        assert!(ignored.iter().zip(&x).take(3).all(|(y, x)| y == x) && ignored[3].is_nan());
    }

    #[test]
    fn a_function_keeps_order_if_it_changes_places_with_a_maximum() {
        let values = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 0.5, 2.0, f64::INFINITY];
        let commutes = |function: &PointwiseSpec| {
            let of = |v: f64| {
                let x = array![v].into_dyn();
                function.problem(x.shape()).unwrap().reference(&x, &[])[[0]]
            };
            let maximum = |a: f64, b: f64| match a.is_nan() || b.is_nan() {
                true => f64::NAN,
                false => a.max(b),
            };
            values.iter().all(|&a| {
                values.iter().all(|&b| {
                    let (sooner, later) = (of(a.max(b)), maximum(of(a), of(b)));
                    sooner == later || sooner.is_nan() && later.is_nan()
                })
            })
        };
        let cases = CASES.iter().flat_map(|cases| (cases.ragged)());
        let of_cases = cases.map(|case| match case.graph.layers() {
            [Layer::Pointwise(function)] => *function,
            other => panic!("{other:?}"),
        });
        let value = f64::INFINITY;
        let others = [
            PointwiseSpec::LeakyRelu {
                negative_slope: value,
            },
            PointwiseSpec::Add { value },
            PointwiseSpec::Add { value: 0.3 },
            PointwiseSpec::Sub { value },
            PointwiseSpec::Mul { value },
            PointwiseSpec::Mul { value: 0.3 },
            PointwiseSpec::Mul { value: 0.0 },
            PointwiseSpec::Mul { value: -1.5 },
            PointwiseSpec::Div { value },
            PointwiseSpec::Div { value: 0.0 },
        ];
        for function in of_cases.chain(others) {
            assert_eq!(function.keeps_order(), commutes(&function), "{function:?}");
        }
    }

    #[test]
    fn a_product_that_f32_has_not_may_be_on_either_side_of_a_threshold() {
        let beta = 0.3;

        let allows = |x: f32, threshold: f64, got: f64| {
            let function = PointwiseSpec::Softplus { beta, threshold };
            let function = function.problem(&[1, 1]).unwrap();
            let function = LayerProblem::Pointwise(function);
            let x = array![[x]].into_dyn();
            let y = Bounded::exact(x.view()).through(&function, &[], &Precision::F32);
            (got - y.values[[0, 0]]).abs() <= y.tolerance[[0, 0]]
        };
        // The product of f32's smallest number and 0.3 is 0, and 0 is not above 0.
        let least = f32::from_bits(1);
        let below = super::softplus(0.0) / beta;
        assert!(allows(least, 0.0, below) && allows(least, 0.0, least.into()));
        assert!(!allows(1e-30, 0.0, below) && allows(1e-30, 0.0, 1e-30));
        // 0.3 is less than 0.3 in f32, so a product may exceed the threshold.
        let x = 5.0f32;
        let above = f64::from(x);
        assert!(allows(x, 1.5 + 1e-8, above) && !allows(x, 1.500_001, above));
        // An infinite threshold is never reached.
        assert!(allows(x, f64::INFINITY, super::softplus(1.5) / beta));
        assert!(!allows(x, f64::INFINITY, above));
    }

    #[test]
    fn values_that_are_surely_clamped_tolerate_nothing_of_their_input() {
        for case in [
            row("clamp", "", "surely 2x36 min=2 max=3"),
            row("relu", "", "surely 2x36 shifted=-2"),
            row("leaky_relu", "", "surely 2x36 negative_slope=0 shifted=-2"),
            row("hardtanh", "", "surely 2x36 min_val=2 max_val=3"),
            row("minimum", "", "surely 2x36 value=-2"),
            row("maximum", "", "surely 2x36 value=2"),
        ] {
            let mut x = Bounded::exact(case.x.view());
            x.tolerance.fill(0.5);
            let layer = &case.problem().unwrap().steps[0].problem;
            let y = x.through(layer, &[], &Precision::F32);
            assert!(y.tolerance.iter().all(|&t| t < 1e-6), "{}", case.name);
        }
    }
}
