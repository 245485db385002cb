//! `channel_max`: the largest channel at each position; NaN wins.

use cuda_std::{Storage, bf16, f16, kernel, shared_array};
use op_spec::launch::channel_max::{BLOCK_THREADS, ChannelMaxGeometry, MIN_BLOCKS};

use crate::parts::channel_reduce::{ChannelMap, MEETING_ELEMENTS, channel_reduce_block};

shared_array! {
    /// The maxima of each slice of the channels.
    static CHANNEL_MAX_MEETING: [f32; MEETING_ELEMENTS];
}

/// The element as it is.
#[derive(Clone, Copy)]
struct Plain;

impl ChannelMap for Plain {
    type Params = ();

    #[inline(always)]
    unsafe fn stage(&self, _sample: u64, _first: u32, _count: u32) {}

    #[inline(always)]
    unsafe fn params(&self, _first: u32, _local: u32) {}

    #[inline(always)]
    fn apply(&self, (): (), x: f32) -> f32 {
        x
    }
}

#[inline(always)]
unsafe fn body<T: Storage>(x: *const T, y: *mut T, g: &ChannelMaxGeometry) {
    channel_reduce_block(x, y, g, Plain, CHANNEL_MAX_MEETING.view());
}

macro_rules! channel_max_kernel {
    ($name:ident, $T:ident) => {
        /// A block takes the maximum over all channels at consecutive positions of one sample.
        ///
        /// *Launch*: `geometry.shape()`.
        /// *Mapping*: four positions a thread; the threads form `geometry.slices` slices, each of
        /// which takes every such channel.
        /// *Barriers*: one if there are several slices.
        /// *Traffic*: each element is read once, each maximum written once.
        ///
        /// # Safety
        /// `x` and `y` are as large as the geometry says, apart, and start on 16 bytes.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
        pub unsafe fn $name(x: *const $T, y: *mut $T, geometry: ChannelMaxGeometry) {
            body(x, y, &geometry);
        }
    };
}

channel_max_kernel!(channel_max_f32, f32);
channel_max_kernel!(channel_max_f16, f16);
channel_max_kernel!(channel_max_bf16, bf16);
