//! Exponentials and functions of them. Their error is a few ulps of f32 everywhere.
//!
//! The usual formulas of saturating functions such as the sigmoid lose the relative accuracy of their tails:
//! `1 + tanh(x)` becomes 0 far too early. All functions here use `e^x` for `x <= 0`. It lies between 0 and 1,
//! so sums and quotients of it lose no accuracy.
//!
//! `e^x` is the device's approximate power of two, and quotients are approximate reciprocals. The emulator
//! computes what a GPU computes, except for the last bit of these. The exponent is split into a whole number,
//! which is exact, and a rest of at most a half.

use cuda_std::Storage;
use cuda_std::math::{self, fma};
use launch_config::pointwise::TAIL;

use super::coarse;

/// The rounding error of log2(e) in f32: the exact value less the rounded one.
const LOG2_E_LOW: f32 = 1.925_963e-8;

/// ln 2 in two parts. The first has trailing zeros, so its product with a whole number below 2^9 is exact.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// `1.5 * 2^23`: a small number plus this constant has the nearest whole number in its lowest bits.
const TO_WHOLE: f32 = 12_582_912.0;

/// Below this bound, `e^x` is taken as 0: even its products with the factors that occur are 0 in f32.
const LOWEST: f32 = -120.0;

/// The whole number nearest to `x / ln 2`.
#[derive(Clone, Copy)]
struct Whole {
    /// Float bits whose lowest bits are the whole number.
    bits: u32,
    number: f32,
}

impl Whole {
    #[inline(always)]
    fn nearest(x: f32) -> Self {
        let shifted = fma(x, core::f32::consts::LOG2_E, TO_WHOLE);
        Self {
            bits: shifted.to_bits(),
            number: shifted - TO_WHOLE,
        }
    }

    /// `2^(whole + shift)`, which has to be a normal number.
    #[inline(always)]
    fn power(self, shift: i32) -> f32 {
        f32::from_bits((self.bits << 23).wrapping_add(((127 + shift) << 23) as u32))
    }
}

/// `e^x` for `x <= 0`, or NaN, times 2^64. The factor keeps all bits of an `e^x` that is subnormal in f32,
/// for products that are normal.
#[derive(Clone, Copy)]
pub(super) struct Exponential(f32);

impl Exponential {
    /// The reciprocal of the factor 2^64.
    const SCALE: f32 = 1.0 / (1u128 << 64) as f32;

    /// Computes `e^x`. `with` may adjust the fraction that is left of the base-2 exponent.
    #[inline(always)]
    fn new(x: f32, with: impl FnOnce(f32) -> f32) -> Self {
        let whole = Whole::nearest(x);
        let rest = fma(x, core::f32::consts::LOG2_E, -whole.number);
        let rest = with(fma(x, LOG2_E_LOW, rest));
        let scaled = math::exp2_normal(rest) * whole.power(64);
        Self(if x < LOWEST { 0.0 } else { scaled })
    }

    /// `e^x`.
    #[inline(always)]
    pub(super) fn of(x: f32) -> Self {
        Self::new(x, |rest| rest)
    }

    /// Computes `e^(a b + and)`. The product is not rounded: for a product of 80, rounding would cost 80
    /// ulps. `and` is a small correction.
    #[inline(always)]
    pub(super) fn of_product(a: f32, b: f32, and: f32) -> Self {
        let x = a * b;
        // The rounding error of the product.
        let lost = fma(a, b, -x);
        Self::new(x, |rest| fma(lost + and, core::f32::consts::LOG2_E, rest))
    }

    /// The value in f32, which loses bits below 2^-126.
    #[inline(always)]
    pub(super) fn value(self) -> f32 {
        self.0 * Self::SCALE
    }

    /// `1 + e^x`
    #[inline(always)]
    pub(super) fn and_one(self) -> f32 {
        fma(self.0, Self::SCALE, 1.0)
    }

    /// `x * e^x * y` without the loss of a subnormal exponential, for an `e^x` that is this value.
    #[inline(always)]
    pub(super) fn times(self, x: f32, y: f32) -> f32 {
        x * (self.0 * y) * Self::SCALE
    }
}

/// `e^x` for `x <= 0`, to the accuracy of `A`. A result below 2^-126 may be 0, and is 0 below [`LOWEST`].
#[inline(always)]
pub(crate) fn exponential<A: Storage>(x: f32) -> f32 {
    if coarse::suffices::<A>() {
        return coarse::exponential(x);
    }
    // An infinite `x` would make the rest NaN.
    let x = math::max_nan(x, LOWEST);
    let exponent = x * core::f32::consts::LOG2_E;
    // What the rounded exponent leaves of `x`.
    let rest = fma(exponent, -core::f32::consts::LN_2, x);
    let power = math::exp2_normal(exponent);
    fma(power, rest, power)
}

/// Computes `e^x - 1` for `x <= 0`. NaN stays NaN, and -0 stays -0.
#[inline(always)]
pub(super) fn exp_less_one(x: f32) -> f32 {
    // For `x` below -64 the result is -1.
    let bounded = math::max_nan(x, -64.0);
    let whole = Whole::nearest(bounded);
    let rest = fma(whole.number, -LN2_HIGH, bounded);
    let rest = fma(whole.number, -LN2_LOW, rest);
    let power = whole.power(0);
    // `power - 1.0` is exact, or its error is below half an ulp of 1.
    let value = fma(exp_less_one_near(rest), power, power - 1.0);
    with_sign(value, x)
}

/// Computes `e^x - 1` to slightly more than half an ulp, for magnitudes of `x` up to ln(2) / 2.
#[inline(always)]
fn exp_less_one_near(x: f32) -> f32 {
    let mut r = 1.976_257_2e-4;
    r = fma(r, x, 1.393_233_1e-3);
    r = fma(r, x, 8.333_545e-3);
    r = fma(r, x, 4.166_649_3e-2);
    r = fma(r, x, 0.166_666_66);
    r = fma(r, x, 0.5);
    fma(r, x * x, x)
}

/// `ln(1 + x)` for `x` from 0 to 1.
#[inline(always)]
pub(super) fn ln_of_one_and(x: f32) -> f32 {
    // For `1 + x` above sqrt(2): ln 2 plus the logarithm of `(1 + x) / 2`.
    let is_large = x > 0.414_213_57;
    let rest = if is_large { fma(x, 0.5, -0.5) } else { x };
    let whole = if is_large {
        core::f32::consts::LN_2
    } else {
        0.0
    };
    let mut r = -7.617_029_5e-2;
    r = fma(r, rest, 0.129_061_36);
    r = fma(r, rest, -0.132_457_18);
    r = fma(r, rest, 0.141_816_44);
    r = fma(r, rest, -0.166_087_21);
    r = fma(r, rest, 0.200_019_82);
    r = fma(r, rest, -0.250_016);
    r = fma(r, rest, 0.333_333_25);
    r = fma(r, rest, -0.499_999_88);
    fma(r, rest * rest, rest) + whole
}

/// `ln x` for a number `x >= 1`.
#[inline(always)]
pub(crate) fn ln_from_one(x: f32) -> f32 {
    const MANTISSA: u32 = (1 << 23) - 1;
    let power = (x.to_bits() >> 23) as i32 - 127;
    let mantissa = f32::from_bits(x.to_bits() & MANTISSA | 127 << 23);
    fma(
        power as f32,
        core::f32::consts::LN_2,
        ln_of_one_and(mantissa - 1.0),
    )
}

/// Computes `e^(x^2 / 2)` times the upper tail probability of a normal distribution beyond `x >= 0`. This
/// function has no steep tail, so a polynomial in `(x - k) / (x + k)` approximates it.
#[inline(always)]
pub(super) fn scaled_tail(x: f32) -> f32 {
    const K: f32 = 4.0;
    let reciprocal = math::reciprocal_normal(x + K);
    let q = fma(reciprocal, -2.0 * K, 1.0);
    // The rounding error of the quotient.
    let lost = fma(-x, q, fma(q + 1.0, -K, x));
    let q = fma(reciprocal, lost, q);
    let mut r = TAIL[TAIL.len() - 1];
    let mut at = TAIL.len() - 1;
    while at > 0 {
        at -= 1;
        r = fma(r, q, TAIL[at]);
    }
    r * reciprocal
}

/// The magnitude of `x` with the sign of `sign`.
#[inline(always)]
pub(super) fn with_sign(x: f32, sign: f32) -> f32 {
    const SIGN: u32 = 1 << 31;
    f32::from_bits((x.to_bits() & !SIGN) | (sign.to_bits() & SIGN))
}
