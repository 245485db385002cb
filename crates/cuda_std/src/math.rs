//! Float arithmetic that maps to one instruction or a few.
//!
//! rustc contracts nothing: `a * b + c` stays two roundings, so say [`fma`] where one is meant. And
//! `f32::max` drops NaN, where [`max_nan`] keeps it, as PyTorch does.
//!
//! **Emulator**: the same value where the instruction is exactly rounded (fma, sqrt, min, max,
//! rounding); functions that are approximate on the device (`rsqrt`, `exp`, `ln`, `sin`, ...) give
//! the nearest f32 here, so a test against the emulator is no test of the approximation.

use crate::backend;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*);)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline(always)]
        pub fn $name($($argument: f32),*) -> f32 {
            backend::$name($($argument),*)
        }
    )*};
}

functions! {
    /// `a * b + c` with one rounding. `fma.rn.f32`.
    fma(a, b, c);
    /// The square root, correctly rounded. `sqrt.rn.f32`.
    sqrt(x);
    /// `1 / sqrt(x)`, relative error up to 2⁻²²·⁹. `rsqrt.approx.f32`.
    rsqrt(x);
    /// `1 / x`, error up to 1 ulp. `rcp.approx.f32`.
    reciprocal_approx(x);
    /// The same where `x` and `1 / x` are normal numbers; subnormal ones count as 0. `rcp.approx.ftz.f32`.
    reciprocal_normal(x);
    /// The larger; NaN if either is. `max.NaN.f32` (sm_80 and later).
    max_nan(a, b);
    /// The smaller; NaN if either is. `min.NaN.f32` (sm_80 and later).
    min_nan(a, b);
    /// The larger; the other one if one is NaN. `max.f32`.
    max(a, b);
    /// The smaller; the other one if one is NaN. `min.f32`.
    min(a, b);
    /// The magnitude. `abs.f32`.
    abs(x);
    /// `2^x`, error up to 2 ulp. `ex2.approx.f32`.
    exp2(x);
    /// The same where `2^x` is a normal number; subnormal ones count as 0. `ex2.approx.ftz.f32`.
    exp2_normal(x);
    /// `e^x`, error of a few ulp: argument reduction with two FMAs around `ex2.approx.f32`.
    exp(x);
    /// `log2(x)`, absolute error up to 2⁻²² near 1, else 2 ulp. `lg2.approx.f32`.
    log2(x);
    /// `ln(x)`: [`log2`] times ln 2.
    ln(x);
    /// `sin(x)`, absolute error up to 2⁻²⁰·⁵ for |x| <= π, more beyond. `sin.approx.f32`.
    sin(x);
    /// `cos(x)`, absolute error up to 2⁻²⁰·⁵ for |x| <= π, more beyond. `cos.approx.f32`.
    cos(x);
    /// `tanh(x)`, relative error up to 2⁻¹¹. `tanh.approx.f32`.
    tanh(x);
    /// Rounds down. `cvt.rmi.f32.f32`.
    floor(x);
    /// Rounds up. `cvt.rpi.f32.f32`.
    ceil(x);
    /// Rounds towards zero. `cvt.rzi.f32.f32`.
    trunc(x);
    /// Rounds to the nearest integer, ties to even. `cvt.rni.f32.f32`.
    round_ties_even(x);
}

plain_functions! {
    /// The upper 32 bits of `a * b`. `mul.hi.u32`.
    ///
    /// The compiler does not always find this instruction in a 64-bit product that is shifted.
    #[must_use]
    fn high_word(a: u32, b: u32) -> u32 = backend::high_word(a, b);
}

/// Rust-CUDA's float methods, as far as PTX has them in a few instructions.
///
/// Import it for `x.mul_add(a, b)` and the like, which `core` lacks. On hosts, `std`'s inherent
/// methods of the same names win and agree.
pub trait GpuFloat: Copy + PartialOrd {
    /// Rounds down.
    #[must_use]
    fn floor(self) -> Self;
    /// Rounds up.
    #[must_use]
    fn ceil(self) -> Self;
    /// Rounds to the nearest integer, ties away from zero.
    #[must_use]
    fn round(self) -> Self;
    /// Rounds towards zero.
    #[must_use]
    fn trunc(self) -> Self;
    /// What [`Self::trunc`] takes away.
    #[must_use]
    fn fract(self) -> Self;
    /// The magnitude.
    #[must_use]
    fn abs(self) -> Self;
    /// 1 with the sign of `self`; NaN stays.
    #[must_use]
    fn signum(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    #[must_use]
    fn copysign(self, sign: Self) -> Self;
    /// `self * a + b` with one rounding.
    #[must_use]
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The square root.
    #[must_use]
    fn sqrt(self) -> Self;
    /// `self` to the power of `n`, by repeated squaring.
    #[must_use]
    fn powi(self, n: i32) -> Self;
}

macro_rules! gpu_float {
    ($ty:ty, $fma:ident, $sqrt:ident, $floor:ident, $ceil:ident, $trunc:ident) => {
        impl GpuFloat for $ty {
            #[inline(always)]
            fn floor(self) -> Self {
                backend::$floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                backend::$ceil(self)
            }
            #[inline(always)]
            fn round(self) -> Self {
                let whole = backend::$trunc(self);
                // Exact: both lie within a factor of two, or `whole` is 0.
                let rest = self - whole;
                if rest >= 0.5 {
                    whole + 1.0
                } else if rest <= -0.5 {
                    whole - 1.0
                } else {
                    whole
                }
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                backend::$trunc(self)
            }
            #[inline(always)]
            fn fract(self) -> Self {
                self - backend::$trunc(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$ty>::from_bits(self.to_bits() << 1 >> 1)
            }
            #[inline(always)]
            fn signum(self) -> Self {
                if self.is_nan() {
                    self
                } else {
                    GpuFloat::copysign(1.0, self)
                }
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                let magnitude = self.to_bits() << 1 >> 1;
                <$ty>::from_bits(magnitude | (sign.to_bits() ^ (sign.to_bits() << 1 >> 1)))
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                backend::$fma(self, a, b)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                backend::$sqrt(self)
            }
            #[inline(always)]
            fn powi(self, n: i32) -> Self {
                let (mut base, mut left, mut power) = (self, n.unsigned_abs(), 1.0);
                while left > 0 {
                    if left & 1 == 1 {
                        power *= base;
                    }
                    base *= base;
                    left >>= 1;
                }
                if n < 0 { 1.0 / power } else { power }
            }
        }
    };
}

gpu_float!(f32, fma, sqrt, floor, ceil, trunc);
gpu_float!(f64, fma64, sqrt64, floor64, ceil64, trunc64);
