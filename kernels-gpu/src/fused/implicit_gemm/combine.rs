//! The moments of a row, from those of the tiles that it is made of.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{kernel, shared_array, thread};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::SPREAD_THREADS;
use op_spec::launch::norm::COUNTED_ELEMENTS;

use crate::parts::moments::{Moments, WARP_SLOT};

/// Warps of a block.
const WARPS: u32 = SPREAD_THREADS / WARP_THREADS;

shared_array! {
    /// The moments of each warp.
    static IMPLICIT_GEMM_COMBINE_WARPS: [f32; (WARPS * WARP_SLOT) as usize];
}

/// A block combines the moments of one row.
///
/// *Launch*: `GemmGeometry::combine_shape(rows)`. *Mapping*: a thread combines every 256th, then warps
/// and the block do, always in the same order.
/// *Barriers*: one. *Traffic*: all moments are read once.
///
/// # Safety
/// `moments` has `rows * count * COUNTED_ELEMENTS` elements, `combined` `rows * COUNTED_ELEMENTS`;
/// both start on 16 bytes and are apart.
#[kernel(max_threads = SPREAD_THREADS)]
pub unsafe fn implicit_gemm_combine(
    moments: *const f32,
    combined: *mut f32,
    rows: u64,
    count: u64,
) {
    let row = thread::block_idx_x() as usize;
    let elements = count as usize * COUNTED_ELEMENTS;
    let moments = Global::new(moments, rows as usize * elements).slice(row * elements, elements);
    let mut all = Moments::EMPTY;
    let mut at = thread::thread_idx_x() as usize;
    while at < count as usize {
        let [count, mean, m2, _] = moments.load_vec::<COUNTED_ELEMENTS>(at * COUNTED_ELEMENTS);
        all = all.and(Moments { count, mean, m2 });
        at += SPREAD_THREADS as usize;
    }
    let all = all.of_block(IMPLICIT_GEMM_COMBINE_WARPS.view(), WARPS);
    if thread::thread_idx_x() == 0 {
        GlobalMut::new(combined, rows as usize * COUNTED_ELEMENTS)
            .store_vec(row * COUNTED_ELEMENTS, [all.count, all.mean, all.m2, 0.0]);
    }
}
