//! The input positions under the filter for one output pixel.

use launch_config::conv::ConvGeometry;

use crate::parts::index::div_rem;

/// The input position under the first tap of an output pixel's window. A negative position, in the padding,
/// wraps to a large one. So one unsigned comparison checks both ends.
#[derive(Clone, Copy)]
pub(super) struct Window {
    d: u32,
    h: u32,
    w: u32,
}

impl Window {
    /// A placeholder before initialisation.
    pub(super) const UNSET: Self = Self { d: 0, h: 0, w: 0 };

    /// The window of output pixel `pixel`, in `D` dimensions.
    ///
    /// # Safety
    /// `g.q > 0` and `g.p > 0`.
    #[inline(always)]
    pub(super) unsafe fn of<const D: usize>(g: &ConvGeometry, pixel: u32) -> Self {
        let (row, q) = div_rem(pixel, g.q);
        let (z, p) = if D == 3 { div_rem(row, g.p) } else { (0, row) };
        Self {
            d: (z * g.stride_d).wrapping_sub(g.pad_d),
            h: (p * g.stride_h).wrapping_sub(g.pad_h),
            w: (q * g.stride_w).wrapping_sub(g.pad_w),
        }
    }

    /// The row of the input under row `r` of slice `t` of the filter.
    #[inline(always)]
    pub(super) fn row<const D: usize>(self, g: &ConvGeometry, t: u32, r: u32) -> Row {
        let h = self.h.wrapping_add(r * g.dilation_h);
        let (row, inside) = if D == 3 {
            let d = self.d.wrapping_add(t * g.dilation_d);
            // `&` compares both unconditionally: a branch would cost more than it saves.
            (d.wrapping_mul(g.h).wrapping_add(h), (d < g.d) & (h < g.h))
        } else {
            (h, h < g.h)
        };
        Row {
            start: row.wrapping_mul(g.w),
            w: self.w,
            inside,
        }
    }
}

/// The part of a window that lies in one row of the input.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The row's first element in the plane; arbitrary if the row is padding.
    start: u32,
    /// Column under the filter's first column; a negative one, in the padding, wraps around.
    w: u32,
    /// Whether the row lies in the input.
    inside: bool,
}

impl Row {
    /// A placeholder before initialisation.
    pub(super) const UNSET: Self = Self {
        start: 0,
        w: 0,
        inside: false,
    };

    /// The element of the plane under column `s` of the filter, or `None` for padding.
    #[inline(always)]
    pub(super) fn under(self, g: &ConvGeometry, s: u32) -> Option<u32> {
        let w = self.w.wrapping_add(s * g.dilation_w);
        (self.inside & (w < g.w)).then(|| self.start.wrapping_add(w))
    }
}
