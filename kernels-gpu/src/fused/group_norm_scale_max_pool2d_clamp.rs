//! `group_norm`, `scale`, `max_pool2d` and `clamp` in one pass, behind the norm's statistics kernel.
//!
//! The convolution's output is read once and never written again. Norm and scale keep the order of the values of a
//! channel or reverse it, so only the extremes of a window are normalised and scaled.

use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};
use op_spec::launch::norm::NormGeometry;

use crate::parts::planes::{NormTensors, Planes};
use crate::parts::pool::pool_block;

/// A block takes and clamps the maxima of `BLOCK_OUTPUTS` windows of the
/// normalised and scaled input.
///
/// *Launch*: `pool.norm_shape(&norm)`.
/// *Mapping*: four windows a thread; see `op_spec::launch::max_pool2d`.
/// *Barriers*: one, after the parameters of the block's planes are in shared memory, and one before it if
/// statistics are in splits.
/// *Traffic*: each element of the input is read about once from memory; each output is
/// written once.
///
/// # Safety
/// As `group_norm_apply` and `max_pool2d`, of the same input; `scale` has `pool.channels`
/// elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn group_norm_scale_max_pool2d_clamp<T: Storage>(
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
    let tensors = NormTensors {
        partials,
        weight,
        bias,
        scale,
    };
    pool_block(x, y, pool, bounds, |first, count| {
        Planes::stage(norm, tensors, first, count)
    });
}
