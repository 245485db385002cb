//! Storage types of tensors whose arithmetic is in f32.

use half::{bf16, f16};

use crate::backend;
use crate::element::Element;

/// A type that stores f32 values, exactly (`f32`) or rounded (`f16`, `bf16`).
pub trait Storage: Element {
    /// Converts the stored value to f32, which is exact.
    #[must_use]
    fn to_f32(self) -> f32;

    /// Rounds to the nearest storable value, ties to even. NaN stays NaN, and values that are too large
    /// become infinite.
    #[must_use]
    fn from_f32(value: f32) -> Self;

    /// Returns the larger value; NaN if either is NaN.
    #[must_use]
    fn larger(self, other: Self) -> Self;

    /// Returns the smaller value; NaN if either is NaN.
    #[must_use]
    fn smaller(self, other: Self) -> Self;

    /// Converts two values with [`Self::to_f32`], in fewer instructions if they share a 32-bit word.
    #[must_use]
    #[inline(always)]
    fn to_f32_pair([low, high]: [Self; 2]) -> [f32; 2] {
        [low.to_f32(), high.to_f32()]
    }

    /// Converts two values with [`Self::from_f32`], in fewer instructions if they share a 32-bit word.
    #[must_use]
    #[inline(always)]
    fn from_f32_pair([low, high]: [f32; 2]) -> [Self; 2] {
        [Self::from_f32(low), Self::from_f32(high)]
    }

    /// Converts a vector with [`Self::to_f32`].
    #[must_use]
    #[inline(always)]
    fn to_f32_vector([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        let ([a, b], [c, d]) = (Self::to_f32_pair([a, b]), Self::to_f32_pair([c, d]));
        [a, b, c, d]
    }

    /// Converts a vector with [`Self::from_f32`].
    #[must_use]
    #[inline(always)]
    fn from_f32_vector([a, b, c, d]: [f32; 4]) -> [Self; 4] {
        let ([a, b], [c, d]) = (Self::from_f32_pair([a, b]), Self::from_f32_pair([c, d]));
        [a, b, c, d]
    }
}

impl Storage for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        backend::max_nan(self, other)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        backend::min_nan(self, other)
    }
}

/// Splits a word into its 16-bit halves, the low one first.
#[inline(always)]
fn halves(word: u32) -> [u16; 2] {
    [word as u16, (word >> 16) as u16]
}

/// Joins two 16-bit halves, the low one first.
#[inline(always)]
fn word([low, high]: [u16; 2]) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// `cvt.f32.f16` and `cvt.rn.f16.f32`; pairs by `cvt.rn.f16x2.f32` (sm_80 and later).
#[doc(hidden)] // The library's users see the page of the type.
impl Storage for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        backend::f16_to_f32(self)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        backend::f16_from_f32(value)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        backend::max_nan_f16(self, other)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        backend::min_nan_f16(self, other)
    }

    #[inline(always)]
    fn to_f32_pair(pair: [Self; 2]) -> [f32; 2] {
        backend::f16x2_to_f32(word(pair.map(Self::to_bits)))
    }

    #[inline(always)]
    fn from_f32_pair([low, high]: [f32; 2]) -> [Self; 2] {
        halves(backend::pack_f16x2(low, high)).map(Self::from_bits)
    }
}

/// A shift by 16 bits, and `cvt.rn.bf16.f32`; pairs by `cvt.rn.bf16x2.f32` (sm_80 and later).
#[doc(hidden)] // The library's users see the page of the type.
impl Storage for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        backend::bf16_from_f32(value)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        backend::max_nan_bf16(self, other)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        backend::min_nan_bf16(self, other)
    }

    #[inline(always)]
    fn from_f32_pair([low, high]: [f32; 2]) -> [Self; 2] {
        halves(backend::pack_bf16x2(low, high)).map(Self::from_bits)
    }
}
