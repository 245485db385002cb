//! `group_norm` and `scale` in one pass, behind the norm's statistics kernel.
//!
//! Saves writing and reading the normalised tensor. The scale multiplies after the norm's own
//! affine, as the separate operators do, so that infinities and NaN come out the same.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, MIN_BLOCKS};
use op_spec::launch::norm::NormGeometry;

use crate::parts::elementwise::{block_span, block_start, map_block};
use crate::parts::index::Channels;
use crate::parts::map::{ChannelScale, Then};
use crate::parts::norm_map::NormMap;

/// Normalises and scales the block's elements.
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
) {
    let x = Global::new(x, g.elements() as usize);
    let y = GlobalMut::new(y, g.elements() as usize);
    map_block(x, y, || {
        let start = block_start();
        let span = block_span(g.elements());
        let norm = NormMap::stage(g, partials, weight, bias, start, span, g.spatial);
        let scale = ChannelScale {
            scale: Global::new(scale, g.channels as usize),
            channels: Channels::from(start, g.spatial, g.channels),
        };
        Then(norm, scale)
    });
}

macro_rules! apply_kernel {
    ($name:ident, $T:ident) => {
        /// A block normalises and scales `BLOCK_ELEMENTS` consecutive elements of `x` into `y`.
        ///
        /// *Launch*: `geometry.apply_shape()`.
        /// *Mapping*: four vectors a thread, a block's width apart.
        /// *Barriers*: one, after the statistics of the block's rows are in shared memory.
        /// *Traffic*: each element is read once and written once; the rest comes from cache.
        ///
        /// # Safety
        /// As `group_norm_apply`; `scale` has `geometry.channels` elements.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(
            x: *const $T,
            partials: *const f32,
            weight: *const $T,
            bias: *const $T,
            scale: *const $T,
            y: *mut $T,
            geometry: NormGeometry,
        ) {
            body(x, partials, weight, bias, scale, y, &geometry);
        }
    };
}

apply_kernel!(group_norm_scale_f32, f32);
apply_kernel!(group_norm_scale_f16, f16);
apply_kernel!(group_norm_scale_bf16, bf16);
