//! Strided arrays with merged axes.

use op_spec::{Quantity, SpecError};

/// The maximum number of axes after merging.
pub const MAX_AXES: usize = 8;

/// An axis of an array in memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StridedAxis {
    /// Number of indices.
    pub extent: u64,
    /// Elements from one index to the next.
    pub stride: i64,
}

/// The axes of an array without those of extent 1. Neighbouring axes that are contiguous with each other are
/// merged. Arrays of the same shape with elements at the same addresses have the same axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Collapsed {
    axes: [StridedAxis; MAX_AXES],
    count: u32,
}

impl Collapsed {
    /// Collapses an array with these extents and strides. Offsets in memory fit `i64`.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if more than [`MAX_AXES`] axes remain.
    pub fn new(shape: &[usize], strides: &[isize]) -> Result<Collapsed, SpecError> {
        let none = StridedAxis {
            extent: 1,
            stride: 0,
        };
        let (mut axes, mut count) = ([none; MAX_AXES], 0);
        for (&extent, &stride) in shape.iter().zip(strides) {
            let axis = StridedAxis {
                extent: extent as u64,
                stride: stride as i64,
            };
            if extent == 1 {
                continue;
            }
            let outer = axes[..count.min(MAX_AXES)].last_mut();
            match outer {
                Some(outer) if outer.stride == axis.stride.wrapping_mul(extent as i64) => {
                    outer.extent = outer.extent.saturating_mul(axis.extent);
                    outer.stride = axis.stride;
                }
                _ => {
                    if let Some(free) = axes.get_mut(count) {
                        *free = axis;
                    }
                    count += 1;
                }
            }
        }
        if count > MAX_AXES {
            return Err(SpecError::BeyondKernel {
                operator: "copy_strided",
                quantity: Quantity::scalar("axes that do not merge"),
                actual: count,
                limit: MAX_AXES,
            });
        }
        let count = count.max(1) as u32;
        Ok(Collapsed { axes, count })
    }

    /// The axes, outermost first; at least one.
    pub fn axes(&self) -> &[StridedAxis] {
        &self.axes[..self.count as usize]
    }

    /// Returns the strides of an array with this shape and these axes; axes of extent 1 have stride 0.
    /// Returns `None` if no such array exists.
    pub fn strides<const N: usize>(&self, shape: [u64; N]) -> Option<[i64; N]> {
        let mut strides = [0; N];
        let mut axes = self.axes().iter().filter(|axis| axis.extent != 1).rev();
        // The remaining extent of the current axis, and the stride of its next factor.
        let (mut left, mut stride) = (1, 0i64);
        for (&extent, of_axis) in shape.iter().zip(&mut strides).rev() {
            if extent == 1 {
                continue;
            }
            if left == 1 {
                let axis = axes.next()?;
                (left, stride) = (axis.extent, axis.stride);
            }
            if extent == 0 || left % extent != 0 {
                return None;
            }
            *of_axis = stride;
            (left, stride) = (left / extent, stride.wrapping_mul(extent as i64));
        }
        (left == 1 && axes.next().is_none()).then_some(strides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(shape: &[usize], strides: &[isize]) -> [(u64, i64); 3] {
        let collapsed = Collapsed::new(shape, strides).unwrap();
        let mut axes = [(0, 0); 3];
        for (of, axis) in axes.iter_mut().zip(collapsed.axes()) {
            *of = (axis.extent, axis.stride);
        }
        axes
    }

    #[test]
    fn axes_merge_where_memory_has_one() {
        let none = (0, 0);
        assert_eq!(axes(&[2, 3, 4], &[12, 4, 1]), [(24, 1), none, none]);
        assert_eq!(axes(&[1, 1], &[5, 7]), [(1, 0), none, none]);
        assert_eq!(axes(&[], &[]), [(1, 0), none, none]);
        assert_eq!(axes(&[5, 4, 3], &[-3, 0, 0]), [(5, -3), (12, 0), none]);
        let channels_last = axes(&[2, 8, 30, 40], &[9600, 1, 320, 8]);
        assert_eq!(channels_last, [(2, 9600), (8, 1), (1200, 8)]);
        let one_sample = axes(&[1, 8, 30, 40], &[77, 1, 320, 8]);
        assert_eq!(one_sample, [(8, 1), (1200, 8), none]);
        assert_eq!(axes(&[6, 5], &[-5, -1]), [(30, -1), none, none]);
    }

    #[test]
    fn strides_come_back_from_axes() {
        let back = |shape: [usize; 4], strides: [isize; 4]| {
            let collapsed = Collapsed::new(&shape, &strides).unwrap();
            collapsed.strides(shape.map(|extent| extent as u64))
        };
        assert_eq!(
            back([2, 8, 30, 40], [9600, 1, 320, 8]),
            Some([9600, 1, 320, 8])
        );
        assert_eq!(back([2, 3, 4, 5], [60, 20, 5, 1]), Some([60, 20, 5, 1]));
        assert_eq!(back([3, 2, 4, 5], [-7, 0, 30, -2]), Some([-7, 0, 30, -2]));
        assert_eq!(back([1, 8, 1, 40], [77, 1, 13, 8]), Some([0, 1, 0, 8]));
        assert_eq!(back([1; 4], [3; 4]), Some([0; 4]));
        // An additional axis of extent 1, and arrays of other shapes.
        let collapsed = Collapsed::new(&[8, 30, 40], &[1, 320, 8]).unwrap();
        assert_eq!(collapsed.strides([1, 8, 30, 40]), Some([0, 1, 320, 8]));
        for other in [
            [1, 8, 30, 41],
            [2, 8, 30, 40],
            [8, 40, 30, 1],
            [0, 8, 30, 40],
        ] {
            let strides = collapsed.strides(other);
            assert_eq!(strides.is_some(), other == [8, 40, 30, 1], "{other:?}");
        }
    }

    #[test]
    fn more_axes_than_the_kernel_takes_are_refused() {
        // Every second element of each axis.
        let strides = core::array::from_fn::<isize, 9, _>(|axis| 3 * 4isize.pow(8 - axis as u32));
        assert!(Collapsed::new(&[2; 8], &strides[1..]).is_ok());
        let refused = Collapsed::new(&[2; 9], &strides).unwrap_err();
        assert!(matches!(
            refused,
            SpecError::BeyondKernel {
                actual: 9,
                limit: 8,
                ..
            }
        ));
    }
}
