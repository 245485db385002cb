//! Float instructions.

use core::arch::asm;
use core::intrinsics;

use half::{bf16, f16};

backend_functions! {
    fn fma(a: f32, b: f32, c: f32) -> f32 = intrinsics::fmaf32(a, b, c);
    fn fma64(a: f64, b: f64, c: f64) -> f64 = intrinsics::fmaf64(a, b, c);
}

macro_rules! unary {
    ($($name:ident: $ty:ty, $class:ident, $text:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(x: $ty) -> $ty {
            let y: $ty;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(
                    concat!($text, " {0}, {1};"),
                    out($class) y, in($class) x,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            y
        }
    )*};
}

unary! {
    sqrt: f32, reg32, "sqrt.rn.f32";
    sqrt64: f64, reg64, "sqrt.rn.f64";
    rsqrt: f32, reg32, "rsqrt.approx.f32";
    reciprocal_approx: f32, reg32, "rcp.approx.f32";
    reciprocal_normal: f32, reg32, "rcp.approx.ftz.f32";
    abs: f32, reg32, "abs.f32";
    exp2: f32, reg32, "ex2.approx.f32";
    exp2_normal: f32, reg32, "ex2.approx.ftz.f32";
    log2: f32, reg32, "lg2.approx.f32";
    log2_normal: f32, reg32, "lg2.approx.ftz.f32";
    sin: f32, reg32, "sin.approx.f32";
    cos: f32, reg32, "cos.approx.f32";
    tanh: f32, reg32, "tanh.approx.f32";
    floor: f32, reg32, "cvt.rmi.f32.f32";
    ceil: f32, reg32, "cvt.rpi.f32.f32";
    trunc: f32, reg32, "cvt.rzi.f32.f32";
    round_ties_even: f32, reg32, "cvt.rni.f32.f32";
    floor64: f64, reg64, "cvt.rmi.f64.f64";
    ceil64: f64, reg64, "cvt.rpi.f64.f64";
    trunc64: f64, reg64, "cvt.rzi.f64.f64";
}

macro_rules! binary {
    ($($name:ident: $ty:ty, $text:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(a: $ty, b: $ty) -> $ty {
            let y: $ty;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(
                    concat!($text, " {0}, {1}, {2};"),
                    out(reg32) y, in(reg32) a, in(reg32) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            y
        }
    )*};
}

binary! {
    max: f32, "max.f32";
    min: f32, "min.f32";
    max_nan: f32, "max.NaN.f32";
    min_nan: f32, "min.NaN.f32";
    max_nan_f16x2: u32, "max.NaN.f16x2";
    min_nan_f16x2: u32, "min.NaN.f16x2";
    max_nan_bf16x2: u32, "max.NaN.bf16x2";
    min_nan_bf16x2: u32, "min.NaN.bf16x2";
    add_f16x2: u32, "add.rn.f16x2";
    add_bf16x2: u32, "add.rn.bf16x2";
    high_word: u32, "mul.hi.u32";
}

/// Computes `e^x = 2^n * e^r` with `x = n ln 2 + r`. `ex2.approx` then gets only |r / ln 2| <= 1/2, where
/// its error is small relative to the result.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// ln 2 in two parts. The first has trailing zeros, so its product with `n` is exact.
    const LN2_HIGH: f32 = 0.693_145_75;
    const LN2_LOW: f32 = 1.428_606_8e-6;
    // Beyond these limits the result is 0 or infinite in any case, and two factors could not represent
    // `2^n`. NaN passes through the sum below.
    let clamped = max(min(x, 89.5), -104.5);
    let n = round_ties_even(clamped * core::f32::consts::LOG2_E);
    let r = fma(-n, LN2_LOW, fma(-n, LN2_HIGH, clamped));
    let half = trunc(n * 0.5);
    // Two exact powers of two: `2^n` alone may overflow or be subnormal although the result does not.
    let y = exp2(r * core::f32::consts::LOG2_E) * exp2(half) * exp2(n - half);
    if x.is_nan() { x } else { y }
}

/// Converts both halves in place: each half is an operand of its own, without a shift.
#[inline(always)]
pub(crate) fn f16x2_to_f32(word: u32) -> [f32; 2] {
    let (low, high): (f32, f32);
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "{{ .reg .b16 low, high; mov.b32 {{low, high}}, {2}; cvt.f32.f16 {0}, low; cvt.f32.f16 {1}, high; }}",
            out(reg32) low, out(reg32) high, in(reg32) word,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    [low, high]
}

/// Conversions from f32.
macro_rules! rounded {
    ($($name:ident: $ty:ident, $text:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(x: f32) -> $ty {
            let y: u16;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(
                    concat!($text, " {0}, {1};"),
                    out(reg16) y, in(reg32) x,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            $ty::from_bits(y)
        }
    )*};
}

rounded! {
    f16_from_f32: f16, "cvt.rn.f16.f32";
    bf16_from_f32: bf16, "cvt.rn.bf16.f32";
}

instructions! {
    [pure nomem] fn of_f16(reg16 x: u16) -> y: f32 = "cvt.f32.f16 {0}, {1};";
    [pure nomem] fn to_tf32(reg32 x: f32) -> y: u32 = "cvt.rna.tf32.f32 {0}, {1};";
    [pure nomem] fn pack_words_f16x2(reg32 high: f32, reg32 low: f32) -> y: u32 = "cvt.rn.f16x2.f32 {0}, {1}, {2};";
    [pure nomem] fn pack_words_bf16x2(reg32 high: f32, reg32 low: f32) -> y: u32 = "cvt.rn.bf16x2.f32 {0}, {1}, {2};";
}

backend_functions! {
    fn ln(x: f32) -> f32 = log2(x) * core::f32::consts::LN_2;
    fn f16_to_f32(x: f16) -> f32 = of_f16(x.to_bits());
    fn pack_f16x2(low: f32, high: f32) -> u32 = pack_words_f16x2(high, low);
    fn pack_bf16x2(low: f32, high: f32) -> u32 = pack_words_bf16x2(high, low);
}

macro_rules! extremes {
    ($($name:ident: $ty:ty, $text:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(a: $ty, b: $ty) -> $ty {
            let y: u16;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(
                    concat!($text, " {0}, {1}, {2};"),
                    out(reg16) y, in(reg16) a.to_bits(), in(reg16) b.to_bits(),
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            <$ty>::from_bits(y)
        }
    )*};
}

extremes! {
    max_nan_f16: f16, "max.NaN.f16";
    min_nan_f16: f16, "min.NaN.f16";
    max_nan_bf16: bf16, "max.NaN.bf16";
    min_nan_bf16: bf16, "min.NaN.bf16";
}
