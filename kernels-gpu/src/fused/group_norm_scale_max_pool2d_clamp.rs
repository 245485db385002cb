//! `group_norm`, `scale`, `max_pool2d` and `clamp` in one pass, behind the norm's statistics kernel.
//!
//! The convolution's output is read once and never written again: elements are normalised and
//! scaled on their way into the maximum of their window.

use cuda_std::global::Global;
use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};
use op_spec::launch::norm::NormGeometry;

use crate::parts::index::Channels;
use crate::parts::map::{ChannelScale, Then};
use crate::parts::norm_map::NormMap;
use crate::parts::pool::{block_span, block_start, pool_block};

/// Normalises, scales and pools the block's windows.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn body<T: Storage>(
    x: *const T,
    partials: *const f32,
    weight: *const T,
    bias: *const T,
    scale: *const T,
    y: *mut T,
    norm: &NormGeometry,
    pool: &PoolGeometry,
    bounds: Bounds,
) {
    let start = block_start();
    let plane_outputs = pool.p as u64 * pool.q as u64;
    let span = block_span(pool);
    let normed = NormMap::stage(norm, partials, weight, bias, start, span, plane_outputs);
    let scaled = ChannelScale {
        scale: Global::new(scale, pool.channels as usize),
        channels: Channels::from(start, plane_outputs, pool.channels),
    };
    pool_block(x, y, pool, Then(normed, scaled), bounds);
}

macro_rules! pool_kernel {
    ($name:ident, $T:ident) => {
        /// A block takes and clamps the maxima of `BLOCK_OUTPUTS` consecutive windows of the
        /// normalised and scaled input.
        ///
        /// *Launch*: `pool.norm_shape(&norm)`.
        /// *Mapping*: four windows a thread, a block's width apart.
        /// *Barriers*: one, after the statistics of the block's rows are in shared memory.
        /// *Traffic*: each element of the input is read about once from memory; each output is
        /// written once.
        ///
        /// # Safety
        /// As `group_norm_apply` and `max_pool2d`, of the same input; `scale` has `pool.channels`
        /// elements.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(
            x: *const $T,
            partials: *const f32,
            weight: *const $T,
            bias: *const $T,
            scale: *const $T,
            y: *mut $T,
            norm: NormGeometry,
            pool: PoolGeometry,
            bounds: Bounds,
        ) {
            body(x, partials, weight, bias, scale, y, &norm, &pool, bounds);
        }
    };
}

pool_kernel!(group_norm_scale_max_pool2d_clamp_f32, f32);
pool_kernel!(group_norm_scale_max_pool2d_clamp_f16, f16);
pool_kernel!(group_norm_scale_max_pool2d_clamp_bf16, bf16);
