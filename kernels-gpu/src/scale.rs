//! `scale`: each channel is multiplied by a number of its own.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, ChannelGeometry, MIN_BLOCKS};

use crate::parts::elementwise::{block_start, map_block};
use crate::parts::index::Channels;
use crate::parts::map::ChannelScale;

macro_rules! scale_kernel {
    ($name:ident, $T:ident) => {
        /// A block multiplies `BLOCK_ELEMENTS` consecutive elements of `x` into `y`.
        ///
        /// *Launch*: `elementwise::shape(geometry.elements)`.
        /// *Mapping*: four vectors a thread, a block's width apart.
        /// *Barriers*: none.
        /// *Traffic*: each element is read once and written once; the scales come from cache.
        ///
        /// # Safety
        /// `x` and `y` have `geometry.elements` elements and start on 16 bytes, `scale` has
        /// `geometry.channels`; `y` is `x` or apart from it.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(x: *const $T, scale: *const $T, y: *mut $T, geometry: ChannelGeometry) {
            let g = geometry;
            let x = Global::new(x, g.elements as usize);
            let y = GlobalMut::new(y, g.elements as usize);
            map_block(x, y, || ChannelScale {
                scale: Global::new(scale, g.channels as usize),
                channels: Channels::from(block_start(), g.spatial, g.channels),
            });
        }
    };
}

scale_kernel!(scale_f32, f32);
scale_kernel!(scale_f16, f16);
scale_kernel!(scale_bf16, bf16);
