//! `group_norm`, `scale` and `clamp` in one pass over what was pooled before its norm.
//!
//! Norm and scale are monotonic, so a pool may come before them, if it takes the right one of largest and
//! smallest; see `implicit_gemm`. The statistics are those of the tensor that was pooled, whose
//! channels and rows this one has.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, Bounds, MIN_BLOCKS};
use op_spec::launch::norm::NormGeometry;

use crate::parts::elementwise::{block_span, block_start, map_block};
use crate::parts::index::Channels;
use crate::parts::map::{ChannelScale, Then};
use crate::parts::norm_map::NormMap;

/// Normalises, scales and clamps the block's elements.
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
    g: &NormGeometry,
    spatial: u64,
    bounds: Bounds,
) {
    let elements = g.rows * g.row_channels as u64 * spatial;
    let x = Global::new(x, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    map_block(x, y, || {
        let start = block_start();
        let norm = NormMap::stage(
            g,
            partials,
            weight,
            bias,
            start,
            block_span(elements),
            spatial,
        );
        let scale = ChannelScale {
            scale: Global::new(scale, g.channels as usize),
            channels: Channels::from(start, spatial, g.channels),
        };
        Then(Then(norm, scale), bounds)
    });
}

macro_rules! apply_kernel {
    ($name:ident, $T:ident) => {
        /// A block normalises, scales and clamps `BLOCK_ELEMENTS` consecutive elements of `x` into `y`.
        ///
        /// *Launch*: `geometry.pooled_shape(spatial)`.
        /// *Mapping*, *barriers*, *traffic*: as `group_norm_scale`.
        ///
        /// # Safety
        /// As `group_norm_apply`, with planes of `spatial` elements, which is positive; `scale` has
        /// `geometry.channels` elements.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(
            x: *const $T,
            partials: *const f32,
            weight: *const $T,
            bias: *const $T,
            scale: *const $T,
            y: *mut $T,
            geometry: NormGeometry,
            spatial: u64,
            bounds: Bounds,
        ) {
            body(
                x, partials, weight, bias, scale, y, &geometry, spatial, bounds,
            );
        }
    };
}

apply_kernel!(group_norm_scale_clamp_f32, f32);
apply_kernel!(group_norm_scale_clamp_f16, f16);
apply_kernel!(group_norm_scale_clamp_bf16, bf16);
