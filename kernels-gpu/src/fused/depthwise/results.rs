//! The output of an item: its rows, or the extrema of their windows.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, math, opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::pointwise::OperandList;

use super::item::{Item, ROWS};
use crate::parts::index::div_rem;
use crate::parts::pointwise::{InRegisters, apply_with_residual};
use crate::parts::unroll::unroll;

/// Writes the lane's first `rows` sums to the output plane `y`.
///
/// # Safety
/// If `rows` is not 0, the lane has a column, and its first `rows` rows, from the item's first one on, are in
/// the output.
#[inline(always)]
pub(super) unsafe fn write_rows<T: Storage>(
    y: GlobalMut<T>,
    g: &DepthwiseGeometry,
    item: &Item,
    rows: u32,
    sums: &[f32; ROWS],
) {
    let conv = &g.conv;
    let first = (item.z * conv.p + item.p) * conv.q + item.q;
    unroll!(8, |i| {
        if (i as u32) < rows {
            let at = first + i as u32 * conv.q;
            y.store(at as usize, T::from_f32(sums[i]));
        }
    });
}

/// Applies the list to the lane's first `rows` sums, which are rounded. `residual` is the plane's residual.
///
/// # Safety
/// As for [`write_rows`].
#[inline(always)]
pub(super) unsafe fn listed<T: Storage>(
    list: &OperandList,
    residual: Global<T>,
    (g, item): (&DepthwiseGeometry, &Item),
    rows: u32,
    mut sums: [f32; ROWS],
) -> [f32; ROWS] {
    let conv = &g.conv;
    let first = (item.z * conv.p + item.p) * conv.q + item.q;
    let mut added = [0.0; ROWS];
    if list.has_residual() {
        unroll!(8, |i| {
            if (i as u32) < rows {
                let at = first + i as u32 * conv.q;
                added[i] = residual.load(at as usize).to_f32();
            }
        });
    }
    // One half after the other: the list's code is written out for every value.
    let mut half = 0;
    while half < 2 {
        opaque::not_unrolled();
        let ([a, b, c, d, rest @ ..], [e, f, g, h, rest_added @ ..]) = (sums, added);
        let (values, others) = ([a, b, c, d], [e, f, g, h]);
        let [a, b, c, d] = apply_with_residual::<T, 4>(list, values, others, InRegisters(values));
        let ([i, j, k, l], [m, n, o, p]) = (rest, rest_added);
        (sums, added) = ([i, j, k, l, a, b, c, d], [m, n, o, p, e, f, g, h]);
        half += 1;
    }
    sums
}

/// The pooling window that a lane reduces.
struct Window {
    /// The window's row in the pooled output.
    p: u32,
    /// The number of its rows seen so far, and the largest of their values in this column.
    rows: u32,
    largest: f32,
}

impl Window {
    /// Starts the next window.
    #[inline(always)]
    fn go_on(&mut self) {
        self.p = self.p.wrapping_add(1);
        self.rows = 0;
        self.largest = f32::NEG_INFINITY;
    }
}

/// Writes, for each whole window of the item, the value that will be the largest after norm and scale. `sign`
/// is -1 if norm and scale reverse the order.
///
/// # Safety
/// All lanes of the warp call it together; outputs are pooled.
#[inline(always)]
pub(super) unsafe fn write_windows<T: Storage>(
    y: GlobalMut<T>,
    g: &DepthwiseGeometry,
    item: &Item,
    sums: &[f32; ROWS],
    sign: f32,
) {
    let lane = thread::thread_idx_x() % WARP_THREADS;
    let (_, in_window) = div_rem(lane, g.pool_w);
    let (q, _) = div_rem(item.q, g.pool_w);
    let (p, _) = div_rem(item.p, g.pool_h);
    let writes = in_window == 0 && lane < g.item_columns && q < g.pooled_w;
    let mut window = Window {
        p: p.wrapping_sub(1),
        rows: 0,
        largest: 0.0,
    };
    window.go_on();
    unroll!(8, |i| {
        window.largest = math::max_nan(window.largest, sign * sums[i]);
        window.rows += 1;
        // The condition is uniform over the warp, as are all values that it depends on.
        if window.rows == g.pool_h {
            let of_column = window.largest;
            let mut column = 1;
            while column < g.pool_w {
                let (other, _) =
                    warp::warp_shuffle_down(warp::ALL_LANES, of_column, column, WARP_THREADS);
                window.largest = math::max_nan(window.largest, other);
                column += 1;
            }
            if writes && (i as u32) < g.item_rows && window.p < g.pooled_h {
                let at = (window.p * g.pooled_w + q) as usize;
                y.store(at, T::from_f32(sign * window.largest));
            }
            warp::sync_warp(warp::ALL_LANES);
            window.go_on();
        }
    });
}
