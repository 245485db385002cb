//! Exponentials and functions of them, to a few ulps of f32 everywhere, or to far less than half an ulp of a
//! 16-bit storage type.
//!
//! Functions that flatten out (a sigmoid, say) have tails whose relative accuracy their usual formulas lose:
//! `1 + tanh(x)` is 0 long before it should be. Here everything is made of `e^x` for `x <= 0`, which lies
//! between 0 and 1, so that sums and quotients of it lose nothing.
//!
//! `e^x` is the device's approximate power of two, and quotients are approximate reciprocals: what the
//! emulator computes is what a GPU computes, but for the last bit of these. For f32 the exponent is a whole
//! number, which is exact, and the rest, at most a half. Where results are stored in 16 bits it is a rounded
//! product, which is off by `2^-16` at most, and takes two instructions in place of nine.

use cuda_std::Storage;
use cuda_std::math::{self, fma};
use launch_config::pointwise::TAIL;

/// What rounding to f32 takes from the logarithm of e to base 2.
const LOG2_E_LOW: f32 = 1.925_963e-8;

/// ln 2 in two parts; the first has trailing zeros, so a whole number below 2^9 times it is exact.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// Added to a small number, it leaves the nearest whole one in the lowest bits.
const TO_WHOLE: f32 = 12_582_912.0;

/// Below, `e^x` is 0: even times the numbers that its factors can be, it is none of f32's.
const LOWEST: f32 = -120.0;

/// The whole number nearest to `x / ln 2`.
#[derive(Clone, Copy)]
struct Whole {
    /// The number, in the lowest bits.
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

/// Whether rounding to the storage type `T` hides the error of the fast exponential.
#[inline(always)]
const fn is_coarse<T>() -> bool {
    size_of::<T>() == 2
}

/// `e^x` for `x <= 0`, or NaN, times 2^64. It thus keeps all bits of an `e^x` that is subnormal in f32, for
/// products that are normal.
#[derive(Clone, Copy)]
pub(crate) struct Exponential(f32);

impl Exponential {
    /// The inverse of the factor.
    const SCALE: f32 = 1.0 / (1u128 << 64) as f32;

    /// `e^x`, or of what `with` makes of the exponent that is left of it, to base 2.
    #[inline(always)]
    fn new(x: f32, with: impl FnOnce(f32) -> f32) -> Self {
        let whole = Whole::nearest(x);
        let rest = fma(x, core::f32::consts::LOG2_E, -whole.number);
        let rest = with(fma(x, LOG2_E_LOW, rest));
        let scaled = math::exp2_normal(rest) * whole.power(64);
        Self(if x < LOWEST { 0.0 } else { scaled })
    }

    /// The same to `2^-16`. The roundings of the constant, of the sum, and of a product in `x` contribute at
    /// most `2^-18` each.
    #[inline(always)]
    fn coarse(x: f32) -> Self {
        Self(math::exp2_normal(fma(x, core::f32::consts::LOG2_E, 64.0)))
    }

    /// `e^x`, for results that are stored as `T`.
    #[inline(always)]
    pub(crate) fn of<T: Storage>(x: f32) -> Self {
        if is_coarse::<T>() {
            return Self::coarse(x);
        }
        Self::new(x, |rest| rest)
    }

    /// `e^(a b)`. The product is not rounded, which for one of 80 would make an error of 80 ulps; `and` is
    /// added to it.
    #[inline(always)]
    pub(super) fn of_product<T: Storage>(a: f32, b: f32, and: f32) -> Self {
        let x = a * b;
        if is_coarse::<T>() {
            return Self::coarse(x);
        }
        // What rounding took from the product.
        let lost = fma(a, b, -x);
        Self::new(x, |rest| fma(lost + and, core::f32::consts::LOG2_E, rest))
    }

    /// The number, which loses bits below 2^-126.
    #[inline(always)]
    pub(crate) fn value(self) -> f32 {
        self.0 * Self::SCALE
    }

    /// `1 + e^x`
    #[inline(always)]
    pub(super) fn and_one(self) -> f32 {
        fma(self.0, Self::SCALE, 1.0)
    }

    /// `x` times the number times `y`, all bits of it.
    #[inline(always)]
    pub(super) fn times(self, x: f32, y: f32) -> f32 {
        x * (self.0 * y) * Self::SCALE
    }
}

/// `e^x - 1` for `x <= 0`; for NaN NaN, for -0 itself.
#[inline(always)]
pub(super) fn exp_less_one(x: f32) -> f32 {
    // Far below it is -1.
    let bounded = math::max_nan(x, -64.0);
    let whole = Whole::nearest(bounded);
    let rest = fma(whole.number, -LN2_HIGH, bounded);
    let rest = fma(whole.number, -LN2_LOW, rest);
    let power = whole.power(0);
    // Exact or beneath half an ulp of 1.
    let value = fma(exp_less_one_near(rest), power, power - 1.0);
    with_sign(value, x)
}

/// `e^x - 1` to half an ulp and a little, where the magnitude of `x` is at most half of ln 2.
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
    // Above sqrt 2 it is ln 2 and the logarithm of half of it.
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

/// `e^(x^2 / 2)` times the part of a normal distribution that lies beyond `x >= 0`: a function without a
/// tail, which a polynomial of `(x - k) / (x + k)` gives.
#[inline(always)]
pub(super) fn scaled_tail(x: f32) -> f32 {
    const K: f32 = 4.0;
    let reciprocal = math::reciprocal_normal(x + K);
    let q = fma(reciprocal, -2.0 * K, 1.0);
    // What rounding took from the quotient.
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
