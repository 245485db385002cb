//! `scale`, `max_pool2d` and `clamp`: elements are scaled on their way into the maximum.
//!
//! Scaling each element of a window, and not their maximum, is what a negative scale needs.

use cuda_std::global::Global;
use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};

use crate::parts::index::Channels;
use crate::parts::map::ChannelScale;
use crate::parts::pool::{block_start, pool_block};

/// Pools the block's windows.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn body<T: Storage>(
    x: *const T,
    scale: *const T,
    y: *mut T,
    g: &PoolGeometry,
    bounds: Bounds,
) {
    let map = ChannelScale {
        scale: Global::new(scale, g.channels as usize),
        channels: Channels::from(block_start(), g.p as u64 * g.q as u64, g.channels),
    };
    pool_block(x, y, g, map, bounds);
}

macro_rules! pool_kernel {
    ($name:ident, $T:ident) => {
        /// A block takes and clamps the maxima of `BLOCK_OUTPUTS` consecutive scaled windows.
        ///
        /// *Launch*: `geometry.shape()`.
        /// *Mapping*: four windows a thread, a block's width apart.
        /// *Barriers*: none.
        /// *Traffic*: each element of the input is read about once from memory; each output is
        /// written once.
        ///
        /// # Safety
        /// As `max_pool2d`; `scale` has `geometry.channels` elements.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(
            x: *const $T,
            scale: *const $T,
            y: *mut $T,
            geometry: PoolGeometry,
            bounds: Bounds,
        ) {
            body(x, scale, y, &geometry, bounds);
        }
    };
}

pool_kernel!(scale_max_pool2d_clamp_f32, f32);
pool_kernel!(scale_max_pool2d_clamp_f16, f16);
pool_kernel!(scale_max_pool2d_clamp_bf16, bf16);
