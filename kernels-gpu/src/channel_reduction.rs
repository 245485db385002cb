//! Reductions over the channels, for example the largest channel at each position. Any axis but the innermost
//! is reduced like the channels.

use cuda_std::{Storage, bf16, f16, kernel, shared_array};
use launch_config::ElementType;
use launch_config::channel_reduction::{BLOCK_THREADS, ChannelReductionGeometry, MIN_BLOCKS};

use crate::fused::group_norm_scale_pointwise::ROOMY;
use crate::parts::channel_reduce::{ChannelMap, SCRATCH_ELEMENTS, channel_reduce_block};
use crate::parts::reduction_operations::{ReductionOperation, of_each_operation};

shared_array! {
    /// Partial results of each slice of the channels.
    static CHANNEL_REDUCTION_SCRATCH: [f32; SCRATCH_ELEMENTS];
}

/// The identity map.
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

of_each_operation! {
    /// A block reduces all channels at consecutive positions of one sample.
    ///
    /// *Launch*: `g.shape()`.
    /// *Mapping*: four positions a thread; the threads form `g.slices` slices, and each slice takes every
    /// `g.slices`-th channel.
    /// *Barriers*: one if there are several slices.
    /// *Traffic*: each element is read once, each result written once.
    ///
    /// # Safety
    /// `x` and `y` are as large as the geometry says, do not overlap, and are 16-byte aligned. `y` has
    /// elements of the type `g.output`.
    #[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS - ROOMY)]
    pub unsafe fn channel_reduction<O: ReductionOperation, T: Storage>(
        x: *const T,
        y: *mut T,
        g: &ChannelReductionGeometry,
    ) {
        let scratch = CHANNEL_REDUCTION_SCRATCH.view();
        channel_reduce_block::<O, T, _>(x, g, Plain, scratch, |place, results| match g.output {
            ElementType::F32 => place.store(y.cast::<f32>(), results),
            ElementType::F16 => place.store(y.cast::<f16>(), results),
            _ => place.store(y.cast::<bf16>(), results),
        });
    }
}
