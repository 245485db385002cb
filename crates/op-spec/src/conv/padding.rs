//! Padding of convolutions: its extent and its values.

use super::ConvSpec;
use crate::error::{Quantity, SpecError, at_least_one};

/// The extent of a convolution's padding.
///
/// # Examples
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::{Conv2dSpec, Padding};
///
/// let spec = Conv2dSpec::default();
/// assert_eq!(spec.padding(1), spec.padding(Padding::Each([1, 1])));
/// assert_ne!(spec.padding([0, 1]), spec.padding(Padding::Same));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Padding<const D: usize> {
    /// This number of elements on both sides of each axis.
    Each([usize; D]),
    /// Padding that makes the output as large as the input, PyTorch's `padding='same'`:
    /// `dilation * (kernel_size - 1)` elements on both sides together. If this number is odd, the end gets
    /// the extra element. The stride must be 1.
    Same,
    /// No padding, PyTorch's `padding='valid'`.
    Valid,
}

impl<const D: usize> Default for Padding<D> {
    fn default() -> Self {
        Self::Each([0; D])
    }
}

impl<const D: usize> From<usize> for Padding<D> {
    fn from(all: usize) -> Self {
        Self::Each([all; D])
    }
}

impl<const D: usize> From<[usize; D]> for Padding<D> {
    fn from(each: [usize; D]) -> Self {
        Self::Each(each)
    }
}

/// The values of the padding; PyTorch's `padding_mode`. Kernels take the variant's number. Exhaustive:
/// PyTorch has these four.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "graph", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "graph", serde(rename_all = "lowercase"))]
pub enum PaddingMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The input mirrored at its outermost elements, which are not repeated. Padding is less than the extent.
    Reflect,
    /// The outermost elements of the input, repeated.
    Replicate,
    /// Elements from the input's other end. Padding is no more than the extent.
    Circular,
}

impl PaddingMode {
    /// PyTorch's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Reflect => "reflect",
            Self::Replicate => "replicate",
            Self::Circular => "circular",
        }
    }

    /// Returns the index of the input element that stands at `position` on an axis of `extent` elements. The
    /// position may be beyond either end. Returns `None` for a zero.
    ///
    /// # Panics
    /// If there are no elements, or if the position is farther beyond an end than the mode allows.
    #[must_use]
    pub fn source(self, position: isize, extent: usize) -> Option<usize> {
        if let Some(inside) = usize::try_from(position).ok().filter(|&at| at < extent) {
            return Some(inside);
        }
        let last = match self {
            Self::Zeros => return None,
            _ => extent.checked_sub(1).expect("an axis with elements"),
        };
        let before = position.unsigned_abs();
        let found = match (self, position < 0) {
            (Self::Zeros, _) => return None,
            (Self::Replicate, true) => 0,
            (Self::Replicate, false) => last,
            (Self::Reflect, true) => before,
            (Self::Reflect, false) => (2 * last).checked_sub(before).expect("one reflection"),
            (Self::Circular, true) => extent.checked_sub(before).expect("one turn"),
            (Self::Circular, false) => before - extent,
        };
        assert!(found < extent, "{} of {position} in {extent}", self.name());
        Some(found)
    }
}

/// A padding step before a convolution, for padding that is not zeros of equal width on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pad<const D: usize> {
    /// Extents of the input, `(d,) (h,) w`.
    pub inner: [usize; D],
    /// Elements before the first one of each axis.
    pub before: [usize; D],
    /// Elements after the last one.
    pub after: [usize; D],
    /// The values of the padding.
    pub mode: PaddingMode,
}

impl<const D: usize> Pad<D> {
    /// Extents of the padded input.
    #[must_use]
    pub fn outer(&self) -> [usize; D] {
        core::array::from_fn(|axis| self.inner[axis] + self.before[axis] + self.after[axis])
    }

    /// Checks the padding of all axes but the first `absent` ones, which the operator's input does not have.
    ///
    /// # Errors
    /// Padding beyond what its mode allows; an axis without elements to take padding from; padded extents
    /// that overflow.
    pub(crate) fn check(&self, operator: &'static str, absent: usize) -> Result<(), SpecError> {
        let mode = self.mode;
        for axis in absent..D {
            let (extent, before, after) = (self.inner[axis], self.before[axis], self.after[axis]);
            let axis = axis - absent;
            let limit = match mode {
                PaddingMode::Zeros => usize::MAX,
                PaddingMode::Reflect | PaddingMode::Replicate | PaddingMode::Circular => {
                    at_least_one(operator, Quantity::entry("input", axis + 2), extent)?;
                    match mode {
                        PaddingMode::Reflect => extent - 1,
                        PaddingMode::Circular => extent,
                        _ => usize::MAX,
                    }
                }
            };
            let padding = before.max(after);
            if padding > limit {
                return Err(SpecError::PadTooLarge {
                    operator,
                    mode: mode.name(),
                    axis,
                    padding,
                    limit,
                });
            }
            let outer = extent.checked_add(before);
            let outer = outer.and_then(|outer| outer.checked_add(after));
            outer.ok_or(SpecError::TooManyElements {
                operator,
                tensor: "padded input",
            })?;
        }
        Ok(())
    }
}

impl<const D: usize> ConvSpec<D> {
    /// Returns the zero padding that the convolution applies itself, equal on both sides, and the separate
    /// padding step that replaces it for any other padding.
    ///
    /// # Errors
    /// `same` with a stride; padding beyond what its mode allows; an axis without elements to take padding
    /// from; padded extents that overflow.
    pub(super) fn pad(
        &self,
        input: [usize; D],
        kernel_size: [usize; D],
    ) -> Result<([usize; D], Option<Pad<D>>), SpecError> {
        let operator = Self::OPERATOR;
        let none = [0; D];
        let (before, after) = match self.padding {
            Padding::Each(each) => (each, each),
            Padding::Valid => (none, none),
            Padding::Same => {
                self.check_same()?;
                let total = |axis: usize| {
                    self.dilation[axis].saturating_mul(kernel_size[axis].saturating_sub(1))
                };
                (
                    core::array::from_fn(|axis| total(axis) / 2),
                    core::array::from_fn(|axis| total(axis).div_ceil(2)),
                )
            }
        };
        let mode = self.padding_mode;
        if before == after && (mode == PaddingMode::Zeros || before == none) {
            return Ok((before, None));
        }
        let pad = Pad {
            inner: input,
            before,
            after,
            mode,
        };
        pad.check(operator, 0)?;
        Ok((none, Some(pad)))
    }

    /// Refuses `same` with a stride.
    pub(super) fn check_same(&self) -> Result<(), SpecError> {
        let strided = (0..D).find(|&axis| self.stride[axis] != 1);
        match strided {
            Some(axis) if self.padding == Padding::Same => Err(SpecError::SameWithStride {
                operator: Self::OPERATOR,
                axis,
                stride: self.stride[axis],
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn modes_read_what_pytorch_pads_with() {
        let line = |mode: PaddingMode, by: isize| -> Vec<Option<usize>> {
            (-by..3 + by).map(|at| mode.source(at, 3)).collect()
        };
        let all = |values: &[usize]| values.iter().map(|&v| Some(v)).collect::<Vec<_>>();
        assert_eq!(line(PaddingMode::Reflect, 2), all(&[2, 1, 0, 1, 2, 1, 0]));
        assert_eq!(line(PaddingMode::Replicate, 2), all(&[0, 0, 0, 1, 2, 2, 2]));
        let circular = all(&[0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(line(PaddingMode::Circular, 3), circular);
        let zeros = [None, Some(0), Some(1), Some(2), None];
        assert_eq!(line(PaddingMode::Zeros, 1), zeros);
    }
}
