//! Float functions: exactly rounded ones as on the device, the others as accurate as f32 allows.

use half::{bf16, f16};

/// Functions computed in `f64`, so that only the rounding to `f32` is left.
macro_rules! through_f64 {
    ($($name:ident($x:ident) = $value:expr;)*) => {$(
        pub(crate) fn $name(x: f32) -> f32 {
            let $x = f64::from(x);
            $value as f32
        }
    )*};
}

through_f64! {
    rsqrt(x) = 1.0 / x.sqrt();
    exp(x) = x.exp();
    exp2(x) = x.exp2();
    ln(x) = x.ln();
    log2(x) = x.log2();
    sin(x) = x.sin();
    cos(x) = x.cos();
    tanh(x) = x.tanh();
}

macro_rules! exact {
    ($($name:ident($($argument:ident),*): $ty:ty = $value:expr;)*) => {$(
        #[inline]
        pub(crate) fn $name($($argument: $ty),*) -> $ty {
            $value
        }
    )*};
}

exact! {
    fma(a, b, c): f32 = a.mul_add(b, c);
    fma64(a, b, c): f64 = a.mul_add(b, c);
    sqrt(x): f32 = x.sqrt();
    sqrt64(x): f64 = x.sqrt();
    reciprocal_approx(x): f32 = 1.0 / x;
    reciprocal_normal(x): f32 = flushed(1.0 / flushed(x));
    exp2_normal(x): f32 = flushed(exp2(flushed(x)));
    log2_normal(x): f32 = log2(flushed(x));
    abs(x): f32 = x.abs();
    floor(x): f32 = x.floor();
    ceil(x): f32 = x.ceil();
    trunc(x): f32 = x.trunc();
    round_ties_even(x): f32 = x.round_ties_even();
    floor64(x): f64 = x.floor();
    ceil64(x): f64 = x.ceil();
    trunc64(x): f64 = x.trunc();
}

/// Flushes a subnormal number to 0 of its sign.
#[inline]
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { x * 0.0 } else { x }
}

/// Not inlined: kernels have many of them, and a program has many kernels.
macro_rules! extremes_f32 {
    ($($name:ident($a:ident, $b:ident) = $value:expr;)*) => {$(
        #[inline(never)]
        pub(crate) fn $name($a: f32, $b: f32) -> f32 {
            $value
        }
    )*};
}

extremes_f32! {
    max(a, b) = if a > b || b.is_nan() || (a == b && b.is_sign_negative()) { a } else { b };
    min(a, b) = if a < b || b.is_nan() || (a == b && a.is_sign_negative()) { a } else { b };
    max_nan(a, b) = if a.is_nan() || b.is_nan() { f32::NAN } else { max(a, b) };
    min_nan(a, b) = if a.is_nan() || b.is_nan() { f32::NAN } else { min(a, b) };
}

#[inline]
pub(crate) fn f16_to_f32(x: f16) -> f32 {
    x.to_f32()
}

macro_rules! extremes {
    ($($name:ident: $ty:ty, $of_f32:ident;)*) => {$(
        #[inline]
        pub(crate) fn $name(a: $ty, b: $ty) -> $ty {
            <$ty>::from_f32($of_f32(a.to_f32(), b.to_f32()))
        }
    )*};
}

extremes! {
    max_nan_f16: f16, max_nan;
    min_nan_f16: f16, min_nan;
    max_nan_bf16: bf16, max_nan;
    min_nan_bf16: bf16, min_nan;
}

#[inline]
pub(crate) fn f16x2_to_f32(word: u32) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|half| f16::from_bits(half).to_f32())
}

#[inline]
pub(crate) fn high_word(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline]
pub(crate) fn f16_from_f32(x: f32) -> f16 {
    f16::from_f32(x)
}

#[inline]
pub(crate) fn bf16_from_f32(x: f32) -> bf16 {
    bf16::from_f32(x)
}

/// Half a unit of the 13 dropped bits added to the magnitude, then truncation: ties away from zero.
/// Infinities and NaN have nothing to round.
pub(crate) fn to_tf32(x: f32) -> u32 {
    const DROPPED: u32 = 0x1fff;
    let bits = x.to_bits();
    if x.is_nan() {
        return 0x7fff_ffff;
    }
    if x.is_infinite() {
        return bits;
    }
    (bits + 0x1000) & !DROPPED
}

pub(crate) fn pack_f16x2(low: f32, high: f32) -> u32 {
    u32::from(f16::from_f32(high).to_bits()) << 16 | u32::from(f16::from_f32(low).to_bits())
}

pub(crate) fn pack_bf16x2(low: f32, high: f32) -> u32 {
    u32::from(bf16::from_f32(high).to_bits()) << 16 | u32::from(bf16::from_f32(low).to_bits())
}

#[inline]
fn add(a: f32, b: f32) -> f32 {
    a + b
}

macro_rules! packed {
    ($($name:ident, $ty:ident, $scalar:ident;)*) => {$(
        #[inline]
        pub(crate) fn $name(a: u32, b: u32) -> u32 {
            let half = |shift: u32| {
                let value = |word: u32| $ty::from_bits((word >> shift) as u16).to_f32();
                let result = $scalar(value(a), value(b));
                // The device's NaN is positive, with all bits of the mantissa set.
                let bits = if result.is_nan() { 0x7fff } else { $ty::from_f32(result).to_bits() };
                u32::from(bits) << shift
            };
            half(0) | half(16)
        }
    )*};
}

packed! {
    max_nan_f16x2, f16, max_nan;
    min_nan_f16x2, f16, min_nan;
    max_nan_bf16x2, bf16, max_nan;
    min_nan_bf16x2, bf16, min_nan;
    // A sum in f32 has more than twice the digits of either type, so its rounding is that of the exact sum.
    add_f16x2, f16, add;
    add_bf16x2, bf16, add;
}
