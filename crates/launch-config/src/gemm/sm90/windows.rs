//! The windows of a convolution, for tensor maps.

use crate::Refusal;
use crate::conv::ConvGeometry;
use op_spec::Quantity;

/// The windows of an axis, as tensor maps in im2col mode describe them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisWindows {
    /// The start of the first window, and the start of the last one relative to the last index of the axis.
    pub corners: [i32; 2],
    /// Distance between consecutive windows.
    pub step: u32,
}

impl AxisWindows {
    /// Limits of tensor maps with three axes besides channels and samples.
    const MOST_STEP: usize = 8;
    const MOST_OFFSET: usize = 31;
    const CORNERS: [i64; 2] = [-16, 15];

    /// The windows along columns, rows and slices.
    ///
    /// # Errors
    /// The rule of tensor maps that an axis breaks.
    pub fn of(conv: &ConvGeometry) -> Result<[Self; 3], Refusal> {
        let c = conv;
        let axes = [
            (
                c.w,
                c.q,
                c.stride_w,
                c.pad_w,
                (c.s - 1).saturating_mul(c.dilation_w),
            ),
            (
                c.h,
                c.p,
                c.stride_h,
                c.pad_h,
                (c.r - 1).saturating_mul(c.dilation_h),
            ),
            (
                c.d,
                c.z,
                c.stride_d,
                c.pad_d,
                (c.t - 1).saturating_mul(c.dilation_d),
            ),
        ];
        let mut windows = [Self {
            corners: [0; 2],
            step: 1,
        }; 3];
        for (axis, (extent, count, stride, pad, reach)) in axes.into_iter().enumerate() {
            // One window has no next one.
            let step = if count > 1 { stride } else { 1 };
            let name = Quantity::entry("stride", 2 - axis);
            Refusal::unless_at_most(name, step as usize, Self::MOST_STEP)?;
            let name = Quantity::entry("(kernel_size - 1) * dilation", 2 - axis);
            Refusal::unless_at_most(name, reach as usize, Self::MOST_OFFSET)?;
            let first = -i64::from(pad);
            let [count, extent, step_of] = [count, extent, step].map(i64::from);
            let last = first + (count - 1) * step_of - (extent - 1);
            let [least, most] = Self::CORNERS;
            if first < least || extent == 0 || !(least..=most).contains(&last) {
                return Err(Refusal::Needs("windows near the edges of the input"));
            }
            windows[axis] = Self {
                corners: [first as i32, last as i32],
                step,
            };
        }
        Ok(windows)
    }
}
