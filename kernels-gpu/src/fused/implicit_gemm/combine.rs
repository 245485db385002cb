//! Combines the moments of all tiles of a norm's row. If a row has many tiles, a first launch combines chunks
//! of them.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{kernel, shared_array, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{COMBINED_BY_THREAD, Combining, SPREAD_THREADS};
use launch_config::norm::COUNTED_ELEMENTS;

use crate::parts::index::div_rem;
use crate::parts::moments::{Moments, WARP_SLOT};
use crate::parts::unroll::unroll;

/// Warps of a block.
const WARPS: u32 = SPREAD_THREADS / WARP_THREADS;

shared_array! {
    /// The moments of each warp.
    static IMPLICIT_GEMM_COMBINE_WARPS: [f32; (WARPS * WARP_SLOT) as usize];
}

/// A block combines the moments of a chunk of a row.
///
/// *Launch*: `combining.shape(rows)`. *Mapping*: a thread combines every 256th tile of the chunk, and loads
/// four at a time. Then warps and the block combine their threads' moments, in a fixed order. *Barriers*:
/// one. *Traffic*: all moments are read once.
///
/// # Safety
/// `moments` has `rows * combining.count * COUNTED_ELEMENTS` elements, `combined`
/// `rows * combining.chunks * COUNTED_ELEMENTS`. Both are 16-byte aligned and do not overlap.
#[kernel(max_threads = SPREAD_THREADS)]
pub unsafe fn implicit_gemm_combine(
    moments: *const f32,
    combined: *mut f32,
    rows: u64,
    combining: Combining,
) {
    let block = thread::block_idx_x();
    let (row, chunk) = div_rem(block, combining.chunks);
    let count = combining.count as usize;
    let elements = count * COUNTED_ELEMENTS;
    let moments = Global::new(moments, rows as usize * elements);
    let moments = moments.slice(row as usize * elements, elements);
    let start = chunk as usize * combining.chunk as usize;
    let end = (start + combining.chunk as usize).min(count);
    let mut all = Moments::EMPTY;
    let mut at = start + thread::thread_idx_x() as usize;
    while at < end {
        // All loads are issued before the first value is used.
        let mut loaded = [[0.0; COUNTED_ELEMENTS]; COMBINED_BY_THREAD as usize];
        unroll!(4, |i| {
            let at = at + i * SPREAD_THREADS as usize;
            if at < end {
                loaded[i] = moments.load_vec::<COUNTED_ELEMENTS>(at * COUNTED_ELEMENTS);
            }
        });
        unroll!(4, |i| {
            let [count, mean, m2, _] = loaded[i];
            all = all.and(Moments { count, mean, m2 });
        });
        at += (COMBINED_BY_THREAD * SPREAD_THREADS) as usize;
    }
    let all = all.of_block(IMPLICIT_GEMM_COMBINE_WARPS.view(), WARPS);
    if thread::thread_idx_x() == 0 {
        let elements = rows as usize * combining.chunks as usize * COUNTED_ELEMENTS;
        GlobalMut::new(combined, elements).store_vec(
            block as usize * COUNTED_ELEMENTS,
            [all.count, all.mean, all.m2, 0.0],
        );
    }
}
const _: () = assert!(COMBINED_BY_THREAD == 4);
