//! Float arithmetic in one or a few instructions.
//!
//! rustc does not contract: `a * b + c` is rounded twice. Call [`fma`] for a single rounding. `f32::max`
//! drops NaN; [`max_nan`] keeps it, as PyTorch does.
//!
//! **Emulator**: exactly rounded instructions (fma, sqrt, min, max, rounding) return the same value as the
//! device. Functions that are approximate on the device (`rsqrt`, `exp`, `ln`, `sin`, ...) return the
//! nearest f32 here. A test against the emulator therefore does not test the approximation.

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
    /// `1 / x`, error up to 1 ulp, if `x` and `1 / x` are normal numbers; subnormals count as 0.
    /// `rcp.approx.ftz.f32`.
    reciprocal_normal(x);
    /// The larger value; NaN if either is NaN. `max.NaN.f32` (sm_80 and later).
    max_nan(a, b);
    /// The smaller value; NaN if either is NaN. `min.NaN.f32` (sm_80 and later).
    min_nan(a, b);
    /// The larger value; if one is NaN, the other one. `max.f32`.
    max(a, b);
    /// The smaller value; if one is NaN, the other one. `min.f32`.
    min(a, b);
    /// The magnitude. `abs.f32`.
    abs(x);
    /// `2^x`, error up to 2 ulp. `ex2.approx.f32`.
    exp2(x);
    /// `2^x`, error up to 2 ulp, if `2^x` is a normal number; subnormals count as 0. `ex2.approx.ftz.f32`.
    exp2_normal(x);
    /// `e^x`, error of a few ulp: argument reduction with two FMAs around `ex2.approx.f32`.
    exp(x);
    /// `log2(x)`, absolute error up to 2⁻²² near 1, else 2 ulp. `lg2.approx.f32`.
    log2(x);
    /// [`log2`] of a normal number; subnormals count as 0. `lg2.approx.ftz.f32`.
    log2_normal(x);
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
    /// The compiler does not always recognise this instruction in the shifted 64-bit product.
    #[must_use]
    fn high_word(a: u32, b: u32) -> u32 = backend::high_word(a, b);
}

/// Rust-CUDA's float methods that take a few PTX instructions.
///
/// Import the trait for methods such as `x.mul_add(a, b)`, which `core` lacks. On hosts, `std`'s inherent
/// methods of the same names take precedence, and return the same values.
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
    /// Returns the fractional part, `self - self.trunc()`.
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
