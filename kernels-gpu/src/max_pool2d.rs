//! `max_pool2d`: the maximum of each window.
//!
//! A window with a NaN gives NaN. Padding never wins: a window's maximum starts at minus infinity and takes
//! only elements of the input.

use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};

use crate::parts::map::Identity;
use crate::parts::pool::pool_block;

/// A block computes the maxima of its `g.block_tasks` tasks, each of one or four windows.
///
/// *Launch*: `g.shape()`. *Mapping*: a thread takes four tasks of one window each side by side, or one task
/// after another of four windows in a stack; see `launch_config::max_pool2d`. *Barriers*: none. *Traffic*:
/// each element of a window is read once from cache, each element of the input about once from memory; each
/// output is written once.
///
/// # Safety
/// `x` and `y` are as large as the geometry says and do not overlap. Each window has an element in the input.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn max_pool2d<T: Storage>(x: *const T, y: *mut T, g: &PoolGeometry) {
    pool_block(x, y, g, Bounds::NONE, |_, _| Identity);
}
