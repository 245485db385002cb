//! `group_norm` and `scale` in one pass, behind the norm's statistics kernel.
//!
//! Saves writing and reading the normalised tensor. The scale multiplies after the norm's own
//! affine, as the separate operators do, so that infinities and NaN come out the same.

use cuda_std::{bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, MIN_BLOCKS};
use op_spec::launch::norm::ApplyGeometry;

use crate::parts::normalise::normalise_block;
use crate::parts::planes::NormTensors;

macro_rules! apply_kernel {
    ($name:ident, $T:ident) => {
        /// A block normalises and scales `geometry.block_elements` consecutive elements of `x` into `y`.
        ///
        /// *Launch*, *mapping*, *barriers*, *traffic*: as `group_norm_apply`.
        ///
        /// # Safety
        /// As `group_norm_apply`; `scale` has `geometry.norm.channels` elements.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(
            x: *const $T,
            partials: *const f32,
            weight: *const $T,
            bias: *const $T,
            scale: *const $T,
            y: *mut $T,
            geometry: ApplyGeometry,
        ) {
            let tensors = NormTensors {
                partials,
                weight,
                bias,
                scale,
            };
            normalise_block::<$T, true>(x, tensors, y, &geometry, |x| x);
        }
    };
}

apply_kernel!(group_norm_scale_f32, f32);
apply_kernel!(group_norm_scale_f16, f16);
apply_kernel!(group_norm_scale_bf16, bf16);
