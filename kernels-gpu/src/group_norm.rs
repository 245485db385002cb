//! `group_norm` normalises rows to mean 0 and variance 1, then scales and shifts them by channel.
//!
//! Two launches. The first reduces rows, or splits of long rows, to a mean and a sum of squared deviations;
//! `parts/moments.rs` has the algorithm. The second, `group_norm_scale_pointwise`, combines the splits of the
//! rows that its block touches, and normalises. `launch_config::norm` defines rows and how they are spread
//! over blocks.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, shared_array, thread};
use launch_config::WARP_THREADS;
use launch_config::norm::{
    NormGeometry, PARTIAL_ELEMENTS, STATS_THREADS, WARP_ROW_ELEMENTS, WARP_ROWS_PER_BLOCK,
};

use crate::parts::index::div_rem;
use crate::parts::moments::{self, WARP_SLOT};

shared_array! {
    /// The moments of each warp.
    static GROUP_NORM_WARPS: [f32; (STATS_WARPS * WARP_SLOT) as usize];
}

/// Warps of a statistics block.
const STATS_WARPS: u32 = STATS_THREADS / WARP_THREADS;

/// A block reduces eight short rows, one a warp, or one split of a long row, to a mean and the sum of squared
/// deviations from it.
///
/// *Launch*: `g.stats_shape()`.
/// *Mapping*: vectors of the row go to the threads in turn, four at a time.
/// *Barriers*: one if rows are long, none if they are short.
/// *Traffic*: each element is read once; eight bytes are written per split.
///
/// # Safety
/// `x` has `g.elements()` elements and is 16-byte aligned; `partials` has `g.partial_elements()` and is
/// 8-byte aligned.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = STATS_THREADS)]
pub unsafe fn group_norm_stats<T: Storage>(x: *const T, partials: *mut f32, g: NormGeometry) {
    let x = Global::new(x, (g.rows * g.row_elements) as usize);
    let partials = GlobalMut::new(partials, g.partial_elements() as usize);
    let block = thread::block_idx_x();
    let thread = thread::thread_idx_x();

    // All blocks take the same branch, as it depends on the geometry alone.
    let (writer, index, moments) = if g.row_elements <= WARP_ROW_ELEMENTS {
        let row = block as u64 * WARP_ROWS_PER_BLOCK as u64 + (thread / WARP_THREADS) as u64;
        // A warp past the last row reduces an empty range, because all warps must reach the shuffles.
        let start = row.min(g.rows) * g.row_elements;
        let end = (start + g.row_elements).min(x.len() as u64);
        let lane = thread % WARP_THREADS;
        let mine = moments::of_range(
            x,
            start as usize,
            end as usize,
            lane as usize,
            WARP_THREADS as usize,
            |_, _| {},
        );
        (lane == 0 && row < g.rows, row, mine.of_warp())
    } else {
        let (row, split) = div_rem(block, g.splits);
        let row_start = row as u64 * g.row_elements;
        let start = split as u64 * g.split_elements;
        let end = (start + g.split_elements).min(g.row_elements);
        let mine = moments::of_range(
            x,
            (row_start + start) as usize,
            (row_start + end) as usize,
            thread as usize,
            STATS_THREADS as usize,
            |_, _| {},
        );
        let all = mine.of_block(GROUP_NORM_WARPS.view(), STATS_WARPS);
        (thread == 0, block as u64, all)
    };
    if writer {
        let at = index as usize * PARTIAL_ELEMENTS;
        partials.store_vec(at, [moments.mean, moments.m2]);
    }
}
