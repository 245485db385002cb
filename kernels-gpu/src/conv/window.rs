//! Where in the input the filter lies for one output pixel.

use op_spec::launch::conv::ConvGeometry;

use crate::parts::index::div_rem;

/// The input position under the first tap of an output pixel's window. In the padding it is below
/// zero, wrapped, and so not below any extent: one unsigned comparison finds both ends.
#[derive(Clone, Copy)]
pub(super) struct Window {
    d: u32,
    h: u32,
    w: u32,
}

impl Window {
    /// Before it is known.
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

    /// The element of the plane under `tap`; none if that is padding.
    #[inline(always)]
    pub(super) fn under<const D: usize>(self, g: &ConvGeometry, tap: Tap) -> Option<u32> {
        let d = self.d.wrapping_add(tap.t * g.dilation_d);
        let h = self.h.wrapping_add(tap.r * g.dilation_h);
        let w = self.w.wrapping_add(tap.s * g.dilation_w);
        if D == 3 {
            (d < g.d && h < g.h && w < g.w).then(|| (d * g.h + h) * g.w + w)
        } else {
            (h < g.h && w < g.w).then(|| h * g.w + w)
        }
    }
}

/// A filter position.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    t: u32,
    r: u32,
    s: u32,
}

impl Tap {
    /// The first one.
    pub(super) const FIRST: Self = Self { t: 0, r: 0, s: 0 };

    /// The one after this.
    #[inline(always)]
    pub(super) fn next<const D: usize>(self, g: &ConvGeometry) -> Self {
        let mut next = Self {
            s: self.s + 1,
            ..self
        };
        if next.s == g.s {
            next.s = 0;
            next.r += 1;
            if D == 3 && next.r == g.r {
                next.r = 0;
                next.t += 1;
            }
        }
        next
    }
}
