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
    /// Returns the size of an element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F16 | DType::BF16 => 2,
        }
    }

    /// The least magnitude that [`round`](Self::round) makes infinite.
    pub(crate) fn least_infinite(self) -> f32 {
        match self {
            DType::F32 => f32::INFINITY,
            DType::F16 => 65_520.0,
            DType::BF16 => f32::from_bits(0x7f7f_8000),
        }
    }

    /// Rounds to the nearest number that the type can hold, ties to even.
    pub fn round(self, value: f32) -> f32 {
        match self {
            DType::F32 => value,
            DType::F16 => f16::from_f32(value).to_f32(),
            DType::BF16 => bf16::from_f32(value).to_f32(),
        }
    }

    /// Rounds a double-precision number like [`round`](Self::round), in one rounding.
    pub(crate) fn round_f64(self, value: f64) -> f32 {
        let nearest = value as f32;
        let between = f64::from(nearest) - value;
        if self == DType::F32 || between == 0.0 || value.is_nan() {
            return self.round(nearest);
        }
        // The number lies between two neighbouring f32 values. Take the one whose last bit is 1 (round to
        // odd). It is a tie of the narrower type only if the number is one, and it lies on the same side of
        // every tie.
        let beyond = (between > 0.0) == (value > 0.0);
        self.round(f32::from_bits((nearest.to_bits() - u32::from(beyond)) | 1))
    }

    /// Returns the type's name, which kernel symbols contain.
    const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
        }
    }

    /// Returns the kernel label of this type.
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

/// Returns the bytes of `values`.
pub(crate) fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: an element type has no padding, and the slice covers size_of_val(values) bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Returns the bytes of `values` for overwriting.
pub(crate) fn as_bytes_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`; and every bit pattern is a value of an element type (sealed trait).
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

#[cfg(test)]
mod tests {
    use super::sealed::Sealed;
    use super::*;

    /// Checks that slices are rounded and widened to the same bits as single values.
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

    /// The nearer of the two neighbours is taken, and the even one for a tie: the definition of the rounding.
    #[test]
    fn numbers_in_double_precision_are_rounded_once() {
        for (dtype, digits, least) in [(DType::F16, 10, -24), (DType::BF16, 7, -133)] {
            let unit = |exponent: i32| 2f64.powi((exponent - digits).max(least));
            for exponent in [-140, -134, -133, -126, -25, -24, -20, -14, -1, 0, 15] {
                for steps in [1.0, 2.0, 3.0, 77.0, 126.0] {
                    let base = 2f64.powi(exponent);
                    let tie = base + (steps + 0.5) * unit(exponent);
                    for off in [0.0, 1e-15, -1e-15, 1e-9, -1e-9, 0.3, -0.3] {
                        let value = tie + off * unit(exponent);
                        let expected = (value / unit(exponent)).round_ties_even() * unit(exponent);
                        let rounded = dtype.round_f64(value);
                        assert_eq!(f64::from(rounded), expected, "{dtype} {value:e}");
                        assert_eq!(dtype.round_f64(-value), -rounded);
                    }
                }
            }
        }
        // A number that a first rounding to f32 turns into a tie.
        let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(DType::F16.round_f64(above_tie), 1.0 + 2f32.powi(-10));
        assert_eq!(DType::F16.round(above_tie as f32), 1.0);
        assert_eq!(DType::F16.round_f64(65_519.999_999_999), 65504.0);
        assert_eq!(DType::F16.round_f64(65520.0), f32::INFINITY);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let least = dtype.least_infinite();
            assert_eq!(dtype.round(least), f32::INFINITY);
            assert!(dtype.round(least.next_down()).is_finite());
            assert_eq!(dtype.round_f64(1e300), f32::INFINITY);
            assert_eq!(dtype.round_f64(f64::NEG_INFINITY), f32::NEG_INFINITY);
            assert_eq!(dtype.round_f64(-1e-300).to_bits(), (-0f32).to_bits());
            assert!(dtype.round_f64(f64::NAN).is_nan());
        }
    }

    #[test]
    fn many_elements_are_converted_as_one_by_one() {
        many_are_as_one::<f32>();
        many_are_as_one::<f16>();
        many_are_as_one::<bf16>();
    }
}
