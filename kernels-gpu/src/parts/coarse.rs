//! Functions with exponentials to a relative error of `2^-16`: for results that are stored in 16 bits, or
//! whose operands were rounded to 11 bits. They take a third of the instructions of the accurate functions.
//!
//! The error is relative everywhere, also in tails and near 0, where short polynomials replace sums that
//! would cancel. Magnitudes below `2^-119` may become 0. NaN stays NaN, and infinities give what the formulas
//! in f32 give: minus infinity times a sigmoid is NaN.

use core::f32::consts::{LN_2, LOG2_E};

use cuda_std::Storage;
use cuda_std::math::{self, exp2_normal, fma, reciprocal_normal};

/// Whether the functions of this module are accurate enough for the accuracy of `A`.
#[inline(always)]
pub(super) const fn suffices<A>() -> bool
where
    A: Storage,
{
    size_of::<A>() == 2
}

/// `e^x`. The exponent is a rounded product, whose roundings contribute at most `2^-17` each.
#[inline(always)]
pub(super) fn exponential(x: f32) -> f32 {
    exp2_normal(x * LOG2_E)
}

/// `1 / (1 + e^-x)`. An infinite exponential gives 0.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    reciprocal_normal(exp2_normal(x * -LOG2_E) + 1.0)
}

/// `1 - 2 / (1 + e^(2 x))`, and `x - x^3 / 3` near 0.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    /// The best coefficient for magnitudes of up to 1 / 16.
    const CUBIC: f32 = -0.332_902_43;
    let far = fma(
        reciprocal_normal(exp2_normal(x * (2.0 * LOG2_E)) + 1.0),
        -2.0,
        1.0,
    );
    let near = x * fma(x * x, CUBIC, 1.0);
    if math::abs(x) < 0.0625 { near } else { far }
}

/// `x` times the cumulative distribution function of the standard normal distribution. Its tail beyond `|x|`
/// is `e^(-x^2 / 2)` times a polynomial in `1 / (|x| + 3.25)`, with a relative error of `2^-18`.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    let t = reciprocal_normal(math::abs(x) + 3.25);
    let mut tail = -89.305_55;
    tail = fma(tail, t, 69.402_27);
    tail = fma(tail, t, 0.617_722_87);
    tail = fma(tail, t, 4.711_2);
    tail = fma(tail, t, 1.252_545_5);
    tail = fma(tail, t, 0.399_797_02);
    tail *= t * exp2_normal(x * x * (-0.5 * LOG2_E));
    x * if x < 0.0 { tail } else { 1.0 - tail }
}

/// `x / (1 + e^(-2 u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`.
#[inline(always)]
pub(super) fn gelu_tanh(x: f32) -> f32 {
    /// The factors of `x` and `x^3` in `-2 u log2(e)`.
    const LINEAR: f32 = -2.302_208_2;
    const CUBIC: f32 = -0.102_943_24;
    let power = exp2_normal(x * fma(x * x, CUBIC, LINEAR));
    x * reciprocal_normal(power + 1.0)
}

/// `e^x - 1` for `x <= 0`, by a polynomial near 0.
#[inline(always)]
pub(super) fn exp_less_one(x: f32) -> f32 {
    let near = x * fma(x, fma(x, 0.159_588_22, 0.499_727_1), 1.0);
    if x > -0.125 {
        near
    } else {
        exponential(x) - 1.0
    }
}

/// `ln(1 + x)` for `x` from 0 to 1, by a polynomial near 0.
#[inline(always)]
pub(super) fn ln_of_one_and(x: f32) -> f32 {
    let near = x * fma(x, fma(x, 0.312_725_42, -0.499_608_43), 1.0);
    if x < 0.0625 {
        near
    } else {
        math::log2_normal(x + 1.0) * LN_2
    }
}

/// `x n / (n + 2)` with `n = e (e + 2)` and `e = e^x`. Above 20 the quotient is 1.
#[inline(always)]
pub(super) fn mish(x: f32) -> f32 {
    let e = exponential(math::min(x, 20.0));
    let n = e * (e + 2.0);
    x * (n * reciprocal_normal(n + 2.0))
}
