//! `max_pool2d`: the maximum of each window.
//!
//! NaN wins over every number, and padding over none: a window starts from minus infinity and only
//! ever sees elements of the input.

use cuda_std::{bf16, f16, kernel};
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};

use crate::parts::map::Identity;
use crate::parts::pool::pool_block;

macro_rules! pool_kernel {
    ($name:ident, $T:ident) => {
        /// A block takes the maxima of `BLOCK_OUTPUTS` windows.
        ///
        /// *Launch*: `geometry.shape()`.
        /// *Mapping*: four windows a thread; see `op_spec::launch::max_pool2d`.
        /// *Barriers*: none.
        /// *Traffic*: each element of a window is read once from cache, each element of the input
        /// about once from memory; each output is written once.
        ///
        /// # Safety
        /// `x` and `y` are as large as the geometry says, and apart; each window has an element in
        /// the input.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(x: *const $T, y: *mut $T, geometry: PoolGeometry) {
            pool_block(x, y, &geometry, Bounds::NONE, |_, _| Identity);
        }
    };
}

pool_kernel!(max_pool2d_f32, f32);
pool_kernel!(max_pool2d_f16, f16);
pool_kernel!(max_pool2d_bf16, bf16);
