//! `scale` multiplies each channel by its own factor. `prelu` does so only where a value is not above 0.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::elementwise::{BLOCK_THREADS, ChannelGeometry, MIN_BLOCKS};

use crate::parts::elementwise::{block_start, map_block};
use crate::parts::index::Channels;
use crate::parts::map::ChannelScale;

/// A block maps `BLOCK_ELEMENTS` consecutive elements of `x` into `y`. It multiplies values that are not
/// above `multiplied_to`, which is infinity for `scale` and 0 for `prelu`, and copies larger ones.
///
/// *Launch*: `elementwise::shape(g.elements)`.
/// *Mapping*: four vectors a thread, a block's width apart.
/// *Barriers*: none.
/// *Traffic*: each element is read once and written once; the scales come from cache.
///
/// # Safety
/// `x` and `y` have `g.elements` elements and are 16-byte aligned, `scale` has `g.channels`. `y` is `x` or
/// does not overlap it.
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
