//! `clamp`, multiply and a reduction over any number of channels: elements are clamped and multiplied before
//! the reduction.

use cuda_std::global::Global;
use cuda_std::{Storage, bf16, f16, kernel, shared_array};
use launch_config::channel_reduction::{BLOCK_THREADS, ChannelReductionGeometry, FUSED_MIN_BLOCKS};
use launch_config::elementwise::Bounds;

use crate::parts::channel_reduce::{ChannelMap, SCRATCH_ELEMENTS, channel_reduce_block};
use crate::parts::map::clamp;
use crate::parts::reduction_operations::{ReductionOperation, of_each_operation};

shared_array! {
    /// The results of each slice of the channels.
    static CLAMP_MULTIPLY_CHANNEL_REDUCTION_SCRATCH: [f32; SCRATCH_ELEMENTS];
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

of_each_operation! {
    of values
    /// A block reduces all clamped and multiplied channels at consecutive positions of one sample.
    ///
    /// *Launch*: `g.shape()`.
    /// *Mapping*: four positions a thread; the threads form `g.slices` slices, and a slice takes every
    /// `g.slices`-th channel.
    /// *Barriers*: one if there are several slices.
    /// *Traffic*: each element is read once, each result written once.
    ///
    /// # Safety
    /// As `channel_reduction`; `multiplier` has `g.channels` elements.
    #[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = FUSED_MIN_BLOCKS)]
    pub unsafe fn clamp_multiply_channel_reduction<O: ReductionOperation, T: Storage>(
        x: *const T,
        multiplier: *const T,
        y: *mut T,
        g: &ChannelReductionGeometry,
        bounds: Bounds,
    ) {
        let map = ClampMultiply {
            multiplier: Global::new(multiplier, g.channels as usize),
            bounds,
        };
        let scratch = CLAMP_MULTIPLY_CHANNEL_REDUCTION_SCRATCH.view();
        channel_reduce_block::<O, T, _>(x, g, map, scratch, |place, results| {
            place.store(y, results);
        });
    }
}
