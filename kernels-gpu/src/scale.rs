//! `scale`: each channel is multiplied by a number of its own; and `prelu`: what of it is not above 0.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::elementwise::{BLOCK_THREADS, ChannelGeometry, MIN_BLOCKS};

use crate::parts::elementwise::{block_start, map_block};
use crate::parts::index::Channels;
use crate::parts::map::ChannelScale;

/// A block multiplies `BLOCK_ELEMENTS` consecutive elements of `x` into `y`, where they are not above
/// `multiplied_to`: infinity for `scale`, 0 for `prelu`.
///
/// *Launch*: `elementwise::shape(g.elements)`.
/// *Mapping*: four vectors a thread, a block's width apart.
/// *Barriers*: none.
/// *Traffic*: each element is read once and written once; the scales come from cache.
///
/// # Safety
/// `x` and `y` have `g.elements` elements and start on 16 bytes, `scale` has
/// `g.channels`; `y` is `x` or apart from it.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn scale<T: Storage>(
    x: *const T,
    scale: *const T,
    y: *mut T,
    g: ChannelGeometry,
    multiplied_to: f32,
) {
    let x = Global::new(x, g.elements as usize);
    let y = GlobalMut::new(y, g.elements as usize);
    map_block(x, y, || ChannelScale {
        scale: Global::new(scale, g.channels as usize),
        channels: Channels::from(block_start(), g.spatial, g.channels),
        multiplied_to,
    });
}
