//! `max_pool2d` and `clamp`: the maximum is clamped before it is stored.

use cuda_std::{bf16, f16, kernel};
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};

use crate::parts::map::Identity;
use crate::parts::pool::pool_block;

macro_rules! pool_kernel {
    ($name:ident, $T:ident) => {
        /// A block takes and clamps the maxima of `BLOCK_OUTPUTS` windows.
        ///
        /// *Launch*: `geometry.shape()`.
        /// *Mapping*: four windows a thread; see `op_spec::launch::max_pool2d`.
        /// *Barriers*: none.
        /// *Traffic*: each element of the input is read about once from memory; each output is
        /// written once.
        ///
        /// # Safety
        /// As `max_pool2d`.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(x: *const $T, y: *mut $T, geometry: PoolGeometry, bounds: Bounds) {
            pool_block(x, y, &geometry, bounds, |_, _| Identity);
        }
    };
}

pool_kernel!(max_pool2d_clamp_f32, f32);
pool_kernel!(max_pool2d_clamp_f16, f16);
pool_kernel!(max_pool2d_clamp_bf16, bf16);
