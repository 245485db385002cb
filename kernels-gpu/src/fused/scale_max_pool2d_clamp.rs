//! `scale`, `max_pool2d` and `clamp`: of each window the smallest and the largest element are scaled.
//!
//! Scaling the largest alone is not enough: a negative scale makes the smallest the largest.

use cuda_std::global::Global;
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::{BLOCK_THREADS, PoolGeometry, SCALED_MIN_BLOCKS};

use crate::parts::index::div_rem_u64;
use crate::parts::map::PlaneScale;
use crate::parts::pool::pool_block;

/// A block takes and clamps the maxima of the scaled windows of its tasks, `g.block_tasks` of them.
///
/// *Launch*: `g.shape()`. *Mapping*: a thread takes four tasks of one window each side by side, or stacks of
/// four windows one after another; see `launch_config::max_pool2d`. *Barriers*: none. *Traffic*: each element
/// of the input is read about once from memory; each output is written once.
///
/// # Safety
/// As `max_pool2d`; `scale` has `g.channels` elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = SCALED_MIN_BLOCKS)]
pub unsafe fn scale_max_pool2d_clamp<T: Storage>(
    x: *const T,
    scale: *const T,
    y: *mut T,
    g: &PoolGeometry,
    bounds: Bounds,
) {
    pool_block(x, y, g, bounds, |first_plane, _| PlaneScale {
        scale: Global::new(scale, g.channels as usize),
        first_channel: div_rem_u64(first_plane, g.channels as u64).1 as u32,
    });
}
