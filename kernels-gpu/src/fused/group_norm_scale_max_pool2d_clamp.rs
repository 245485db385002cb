//! `group_norm`, `scale`, `max_pool2d` and `clamp` in one pass, after the norm's statistics kernel.
//!
//! # Idea
//! The convolution's output is read once and never written again. Norm and scale keep the order of the values
//! of a channel or reverse it, so only the extremes of a window are normalised and scaled.
//!
//! ```text
//! a block has consecutive outputs, or stacks of four, and so the windows of some planes in a row
//! mean, rstd of the rows that these planes belong to, if they are in splits; barrier       # `parts::planes`
//! for each plane, a thread: [mean, rstd * weight, bias, scale] -> shared memory; barrier
//! for each of the thread's windows, four at a time:                                        # `parts::pool`
//!     smallest, largest = over the elements of the window that are in the input, as stored
//!     map(x) = ((x - mean) * factor + bias) * scale                                        # of its plane
//!     y = clamp(max(map(smallest), map(largest)))                                          # NaN wins
//!     where factor or scale is infinite: y = clamp(max over map(each element))             # 0 * inf is NaN
//! ```

use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::{BLOCK_THREADS, MIN_BLOCKS, PoolGeometry};
use launch_config::norm::NormGeometry;

use crate::parts::planes::{Behind, NormTensors, Planes};
use crate::parts::pool::pool_block;

/// A block takes and clamps the maxima of the windows of its tasks, `pool.block_tasks` of them, in the
/// normalised and scaled input.
///
/// *Launch*: `pool.norm_shape(&norm)`. *Mapping*: a thread takes four tasks of one window each side by side,
/// or stacks of four windows one after another; see `launch_config::max_pool2d`. *Barriers*: one, after the
/// parameters of the block's planes are in shared memory, and one before it if statistics are in splits.
/// *Traffic*: each element of the input is read about once from memory; each output is written once.
///
/// # Safety
/// As `group_norm_scale_pointwise` and `max_pool2d`, of the same input; `scale`, if it is not null, has
/// `pool.channels` elements.
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
        before: core::ptr::null(),
        weight,
        bias,
        scale,
        behind: Behind::FACTORS,
    };
    pool_block(x, y, pool, bounds, |first, count| {
        Planes::stage(norm, tensors, first, count)
    });
}
