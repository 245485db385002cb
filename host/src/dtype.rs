//! Element types of tensors.

use std::fmt;
use std::mem::MaybeUninit;

use cuda_std::Label;
use half::slice::HalfFloatSliceExt;
#[doc(inline)]
pub use half::{bf16, f16};

/// The element type in which a tensor is stored. Arithmetic is f32 in every case.
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

    /// Its name, also in kernel symbols.
    const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
        }
    }

    /// The label of kernels for this type.
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
    use std::mem::MaybeUninit;

    /// Conversions of slices, by the processor's vector instructions.
    pub trait Sealed: Sized {
        /// Rounds each value as `from_f32` does. The two slices have the same length.
        fn round_all(from: &[f32], to: &mut [Self]);
        /// Widens each value as `to_f32` does. The two slices have the same length; all of `to` is written.
        fn widen_all(from: &[Self], to: &mut [MaybeUninit<f32>]);
    }
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

impl sealed::Sealed for f32 {
    fn round_all(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn widen_all(from: &[f32], to: &mut [MaybeUninit<f32>]) {
        to.write_copy_of_slice(from);
    }
}

macro_rules! sealed_half {
    ($type:ty) => {
        impl sealed::Sealed for $type {
            fn round_all(from: &[f32], to: &mut [$type]) {
                to.convert_from_f32_slice(from);
            }

            fn widen_all(from: &[$type], to: &mut [MaybeUninit<f32>]) {
                assert_eq!(from.len(), to.len(), "the two have one length");
                let mut wide = [0.0; 512];
                for (from, to) in from.chunks(wide.len()).zip(to.chunks_mut(wide.len())) {
                    let wide = &mut wide[..from.len()];
                    from.convert_to_f32_slice(wide);
                    to.write_copy_of_slice(wide);
                }
            }
        }
    };
}

sealed_half!(f16);
sealed_half!(bf16);

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

#[cfg(test)]
mod tests {
    use super::sealed::Sealed;
    use super::*;

    /// Slices are rounded and widened to the same bits as single values.
    fn many_are_as_one<T: Element + Sealed + PartialEq + fmt::Debug>() {
        let special = [f32::NAN, f32::INFINITY, -0.0, 65519.9, 65520.0, 1e-8, 6e-8];
        let ragged = (0..1021).map(|index| (index as f32 - 500.0) * 0.37);
        let from: Vec<f32> = special.into_iter().chain(ragged).collect();
        let mut to = vec![T::default(); from.len()];
        T::round_all(&from, &mut to);
        let one_by_one: Vec<T> = from.iter().map(|&value| T::from_f32(value)).collect();
        assert_eq!(as_bytes(&to), as_bytes(&one_by_one));
        let mut back = vec![MaybeUninit::uninit(); to.len()];
        T::widen_all(&to, &mut back);
        for (back, one) in back.iter().zip(&to) {
            // SAFETY: `widen_all` writes every element.
            let back = unsafe { back.assume_init() };
            assert_eq!(back.to_bits(), one.to_f32().to_bits());
        }
    }

    #[test]
    fn many_elements_are_converted_as_one_by_one() {
        many_are_as_one::<f32>();
        many_are_as_one::<f16>();
        many_are_as_one::<bf16>();
    }
}
