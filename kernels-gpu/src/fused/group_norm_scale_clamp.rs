//! `group_norm`, `scale` and `clamp` in one pass over what was pooled before its norm.
//!
//! Norm and scale are monotonic, so a pool may come before them, if it takes the right one of largest and
//! smallest; see `implicit_gemm`. The statistics are those of the tensor that was pooled, whose
//! channels and rows this one has.

use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, Bounds, MIN_BLOCKS};
use op_spec::launch::norm::ApplyGeometry;

use crate::parts::map::clamp;
use crate::parts::normalise::normalise_block;
use crate::parts::planes::NormTensors;

/// A block normalises, scales and clamps `g.block_elements` consecutive elements of `x` into `y`.
///
/// *Launch*, *mapping*, *barriers*, *traffic*: as `group_norm_apply`.
///
/// # Safety
/// As `group_norm_scale`; `partials` may be those of the tensor that `x` was pooled from.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn group_norm_scale_clamp<T: Storage>(
    x: *const T,
    partials: *const f32,
    weight: *const T,
    bias: *const T,
    scale: *const T,
    y: *mut T,
    g: &ApplyGeometry,
    bounds: Bounds,
) {
    let tensors = NormTensors {
        partials,
        weight,
        bias,
        scale,
    };
    let clamped = |x| clamp(bounds, x);
    normalise_block::<T, true>(x, tensors, y, g, clamped);
}
