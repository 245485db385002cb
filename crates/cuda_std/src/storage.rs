//! Types that tensors are stored in while arithmetic is f32.

use half::{bf16, f16};

use crate::backend;
use crate::element::Element;

/// A type that stores f32 values, exactly or rounded.
pub trait Storage: Element {
    /// The stored value, which f32 holds exactly.
    #[must_use]
    fn to_f32(self) -> f32;

    /// The nearest value that can be stored, ties to even; NaN stays NaN, and what is too large
    /// becomes infinite.
    #[must_use]
    fn from_f32(value: f32) -> Self;
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
}

/// `cvt.f32.f16` and `cvt.rn.f16.f32`.
impl Storage for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        backend::f16_to_f32(self)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        backend::f16_from_f32(value)
    }
}

/// A shift by 16 bits, and `cvt.rn.bf16.f32` (sm_80 and later).
impl Storage for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        backend::bf16_from_f32(value)
    }
}
