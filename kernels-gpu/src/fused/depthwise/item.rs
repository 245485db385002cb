//! An item: its position, and its sums.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, math, thread};
use launch_config::WARP_THREADS;
use launch_config::depthwise::{DepthwiseGeometry, ITEM_ROWS};

use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// The rows of an item, as a length.
pub(super) const ROWS: usize = ITEM_ROWS as usize;
const _: () = assert!(ROWS == 8);

/// The item of a warp, as a lane sees it.
pub(super) struct Item {
    /// Slice, first row and column of the output. The column may be beyond the last.
    pub(super) z: u32,
    pub(super) p: u32,
    pub(super) q: u32,
    /// Whether the lane has a column of the output.
    pub(super) is_column: bool,
    /// Slice, row and column of the input that the first tap meets. In the padding before the input they are
    /// below zero, wrapped.
    pub(super) d: u32,
    pub(super) h: u32,
    pub(super) w: u32,
    /// Whether no lane meets padding along slices and rows, and whether no lane meets padding along columns.
    pub(super) rows_inside: bool,
    pub(super) columns_inside: bool,
}

impl Item {
    /// Item `item` of a plane.
    #[inline(always)]
    pub(super) unsafe fn of(g: &DepthwiseGeometry, item: u32) -> Self {
        let conv = &g.conv;
        let lane = thread::thread_idx_x() % WARP_THREADS;
        let (rest, column) = div_rem(item, g.items_w);
        let (z, row) = div_rem(rest, g.items_h);
        let (p, first_q) = (row * g.item_rows, column * g.item_columns);
        let q = first_q + lane;
        let d = (z * conv.stride_d).wrapping_sub(conv.pad_d);
        let h = (p * conv.stride_h).wrapping_sub(conv.pad_h);
        let first_w = (first_q * conv.stride_w).wrapping_sub(conv.pad_w);
        // The distance from the first element of all lanes to the last one of any lane, along each axis. An
        // element in front of the input has wrapped, so it also counts as behind the input.
        let reach = |steps: u32, stride: u32, taps: u32, dilation: u32| {
            let taps = (taps - 1).saturating_mul(dilation);
            steps.saturating_mul(stride).saturating_add(taps)
        };
        let inside = |first: u32, reach: u32, extent: u32| first.saturating_add(reach) < extent;
        Self {
            z,
            p,
            q,
            is_column: lane < g.item_columns && q < conv.q,
            d,
            h,
            w: q.wrapping_mul(conv.stride_w).wrapping_sub(conv.pad_w),
            rows_inside: inside(d, reach(0, 0, conv.t, conv.dilation_d), conv.d)
                && inside(
                    h,
                    reach(ITEM_ROWS - 1, conv.stride_h, conv.r, conv.dilation_h),
                    conv.h,
                ),
            columns_inside: inside(
                first_w,
                reach(WARP_THREADS - 1, conv.stride_w, conv.s, conv.dilation_w),
                conv.w,
            ),
        }
    }
}

/// Computes the lane's sums for an item that touches no padding, except perhaps beside columns.
///
/// # Safety
/// The item is in the plane `x`, with rows inside, and with columns inside if `COLUMNS_INSIDE`; `filter` has
/// all taps.
#[inline(always)]
pub(super) unsafe fn convolve_inner<T: Storage, const COLUMNS_INSIDE: bool>(
    x: Global<T>,
    filter: Shared<f32>,
    g: &DepthwiseGeometry,
    item: &Item,
) -> [f32; ROWS] {
    let conv = &g.conv;
    let step = conv.stride_h * conv.w;
    let mut sums = [0.0; ROWS];
    let (mut t, mut tap) = (0, 0);
    while t < conv.t {
        let slice = (item.d + t * conv.dilation_d) * conv.h;
        let mut r = 0;
        while r < conv.r {
            let row = (slice + item.h + r * conv.dilation_h) * conv.w;
            let mut s = 0;
            while s < conv.s {
                let w = item.w.wrapping_add(s * conv.dilation_w);
                let inside = COLUMNS_INSIDE || w < conv.w;
                // In the padding the first column is loaded, and not used.
                let at = row + if inside { w } else { 0 };
                let factor = filter.load(tap);
                unroll!(8, |i| {
                    let at = at + i as u32 * step;
                    let value = x.load_readonly(at as usize).to_f32();
                    let value = if inside { value } else { 0.0 };
                    sums[i] = math::fma(value, factor, sums[i]);
                });
                s += 1;
                tap += 1;
            }
            r += 1;
        }
        t += 1;
    }
    sums
}

/// Computes the lane's sums for an item that may touch padding.
///
/// # Safety
/// `x` is the item's plane and has an element; `filter` has all taps.
#[inline(always)]
pub(super) unsafe fn convolve_edge<T: Storage>(
    x: Global<T>,
    filter: Shared<f32>,
    g: &DepthwiseGeometry,
    item: &Item,
) -> [f32; ROWS] {
    let conv = &g.conv;
    let mut sums = [0.0; ROWS];
    let (mut t, mut tap) = (0, 0);
    while t < conv.t {
        let d = item.d.wrapping_add(t * conv.dilation_d);
        let mut r = 0;
        while r < conv.r {
            let first = item.h.wrapping_add(r * conv.dilation_h);
            let mut s = 0;
            while s < conv.s {
                let w = item.w.wrapping_add(s * conv.dilation_w);
                let is_column = d < conv.d && w < conv.w;
                let factor = filter.load(tap);
                unroll!(8, |i| {
                    let h = first.wrapping_add((i as u32).wrapping_mul(conv.stride_h));
                    let inside = is_column && h < conv.h;
                    // In the padding the first element is loaded, and not used.
                    let at = if inside {
                        (d * conv.h + h) * conv.w + w
                    } else {
                        0
                    };
                    let value = x.load_readonly(at as usize).to_f32();
                    let value = if inside { value } else { 0.0 };
                    sums[i] = math::fma(value, factor, sums[i]);
                });
                s += 1;
                tap += 1;
            }
            r += 1;
        }
        t += 1;
    }
    sums
}
