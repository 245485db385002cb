//! Element types of tensors.

use std::fmt;

use cuda_std::Label;
pub use half::{bf16, f16};

/// The element type of a tensor. Arithmetic is f32 in every case; this is how elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision: 11 significant bits, largest finite value 65,504.
    F16,
    /// The upper half of an f32: 8 significant bits, an f32's range.
    BF16,
}

impl DType {
    /// Bytes an element takes.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F16 | DType::BF16 => 2,
        }
    }

    /// The nearest number that the type can hold, ties to even.
    pub fn round(self, value: f32) -> f32 {
        match self {
            DType::F32 => value,
            DType::F16 => f16::from_f32(value).to_f32(),
            DType::BF16 => bf16::from_f32(value).to_f32(),
        }
    }

    /// What it is called, in symbols of kernels too.
    const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
        }
    }

    /// What kernels that store it are labelled.
    pub(crate) const fn label(self) -> Label {
        Label::Name(self.name())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// A Rust type that tensors can hold: `f32`, `f16` or `bf16`.
///
/// Sealed, because the device layer relies on every bit pattern being a value of the type.
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// The matching element type.
    const DTYPE: DType;
    /// Widens without loss.
    fn to_f32(self) -> f32;
    /// Rounds to nearest, ties to even; NaN stays NaN.
    fn from_f32(value: f32) -> Self;
}

macro_rules! element {
    ($type:ty, $dtype:ident, $to_f32:expr, $from_f32:expr) => {
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
            fn from_f32(value: f32) -> Self {
                $from_f32(value)
            }
        }
    };
}

element!(f32, F32, f32::from, f32::from);
element!(f16, F16, f16::to_f32, f16::from_f32);
element!(bf16, BF16, bf16::to_f32, bf16::from_f32);

/// The bytes of `values`.
pub(crate) fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: an element type has no padding, and the slice covers size_of_val(values) bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of `values`, to be overwritten.
pub(crate) fn as_bytes_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`; and every bit pattern is a value of an element type (sealed trait).
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
