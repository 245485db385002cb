//! `max_pool2d` and `clamp`: the maximum is clamped before it is stored.

use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};

use crate::parts::map::Identity;
use crate::parts::pool::pool_block;

/// A block takes and clamps the maxima of the windows of its tasks, `g.block_tasks` of them.
///
/// *Launch*: `g.shape()`. *Mapping*: a thread takes four tasks of one window each side by side, or stacks of
/// four windows one after another; see `launch_config::max_pool2d`. *Barriers*: none. *Traffic*: each element
/// of the input is read about once from memory; each output is written once.
///
/// # Safety
/// As `max_pool2d`.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn max_pool2d_clamp<T: Storage>(
    x: *const T,
    y: *mut T,
    g: &PoolGeometry,
    bounds: Bounds,
) {
    pool_block(x, y, g, bounds, |_, _| Identity);
}
