//! `group_norm` and `scale` in one pass, behind the norm's statistics kernel.
//!
//! Saves writing and reading the normalised tensor. The scale multiplies after the norm's own
//! affine, as the separate operators do, so that infinities and NaN come out the same.

use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, MIN_BLOCKS};
use op_spec::launch::norm::ApplyGeometry;

use crate::parts::normalise::normalise_block;
use crate::parts::planes::NormTensors;

/// A block normalises and scales `g.block_elements` consecutive elements of `x` into `y`.
///
/// *Launch*, *mapping*, *barriers*, *traffic*: as `group_norm_apply`.
///
/// # Safety
/// As `group_norm_apply`; `scale` has `g.norm.channels` elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn group_norm_scale<T: Storage>(
    x: *const T,
    partials: *const f32,
    weight: *const T,
    bias: *const T,
    scale: *const T,
    y: *mut T,
    g: &ApplyGeometry,
) {
    let tensors = NormTensors {
        partials,
        weight,
        bias,
        scale,
    };
    normalise_block::<T, true>(x, tensors, y, g, |x| x);
}
