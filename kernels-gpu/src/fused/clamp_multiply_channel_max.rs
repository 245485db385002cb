//! `clamp`, multiply and `channel_max`: elements are clamped and multiplied on their way into the
//! maximum over any number of channels.

use cuda_std::global::Global;
use cuda_std::{Storage, bf16, f16, kernel, shared_array};
use op_spec::launch::channel_max::{BLOCK_THREADS, ChannelMaxGeometry, MIN_BLOCKS};
use op_spec::launch::elementwise::Bounds;

use crate::parts::channel_reduce::{ChannelMap, MEETING_ELEMENTS, channel_reduce_block};
use crate::parts::map::clamp;

shared_array! {
    /// The maxima of each slice of the channels.
    static CLAMP_MULTIPLY_CHANNEL_MAX_MEETING: [f32; MEETING_ELEMENTS];
}

/// `clamp(x) * multiplier[channel]`
#[derive(Clone, Copy)]
struct ClampMultiply<T: Storage> {
    multiplier: Global<T>,
    bounds: Bounds,
}

impl<T: Storage> ChannelMap for ClampMultiply<T> {
    type Params = f32;

    #[inline(always)]
    unsafe fn stage(&self, _sample: u64, _first: u32, _count: u32) {}

    #[inline(always)]
    unsafe fn params(&self, first: u32, local: u32) -> f32 {
        let channel = (first + local) as usize;
        self.multiplier.load_readonly(channel).to_f32()
    }

    #[inline(always)]
    fn apply(&self, multiplier: f32, x: f32) -> f32 {
        clamp(self.bounds, x) * multiplier
    }
}

/// Reduces the block's positions.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn body<T: Storage>(
    x: *const T,
    multiplier: *const T,
    y: *mut T,
    g: &ChannelMaxGeometry,
    bounds: Bounds,
) {
    let map = ClampMultiply {
        multiplier: Global::new(multiplier, g.channels as usize),
        bounds,
    };
    let meeting = CLAMP_MULTIPLY_CHANNEL_MAX_MEETING.view();
    channel_reduce_block(x, y, g, map, meeting);
}

macro_rules! channel_max_kernel {
    ($name:ident, $T:ident) => {
        /// A block takes the maximum over all clamped and multiplied channels at consecutive
        /// positions of one sample.
        ///
        /// *Launch*: `geometry.shape()`.
        /// *Mapping*: four positions a thread; the threads form `geometry.slices` slices, each of
        /// which takes every such channel.
        /// *Barriers*: one if there are several slices.
        /// *Traffic*: each element is read once, each maximum written once.
        ///
        /// # Safety
        /// As `channel_max`; `multiplier` has `geometry.channels` elements.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(
            x: *const $T,
            multiplier: *const $T,
            y: *mut $T,
            geometry: ChannelMaxGeometry,
            bounds: Bounds,
        ) {
            body(x, multiplier, y, &geometry, bounds);
        }
    };
}

channel_max_kernel!(clamp_multiply_channel_max_f32, f32);
channel_max_kernel!(clamp_multiply_channel_max_f16, f16);
channel_max_kernel!(clamp_multiply_channel_max_bf16, bf16);
