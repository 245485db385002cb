//! `multiply`, `instance_norm`, `clamp`, `multiply` and a reduction over the channels in one pass over a
//! tensor that was never multiplied, after the norm's statistics kernel.
//!
//! # Idea
//! The first multiplication is folded into the statistics. With the mean and the variance of `x`,
//! ```text
//! norm(m x) = (m x - m mean) / sqrt(m² variance + eps) = (x - mean) * [m / sqrt(m² variance + eps)]
//! ```
//! holds for any `m`, 0 included.
//!
//! ```text
//! a block has consecutive positions of one sample; its threads are `slices` times `lanes`
//! result[four positions] = identity                           # of a maximum -inf
//! for each 256 channels:
//!     barrier                                                  # those before are in use until here
//!     for each of them, a thread (a warp, where its row is in splits):
//!         factor = m / sqrt(m² variance + eps) * weight
//!         staged[channel] = [mean, factor, bias, m]            # to shared memory
//!     barrier
//!     for each of them that is the slice's, every `slices`-th: # four channels in flight
//!         result = combine(result, clamp((x - mean) * factor + bias) * m)
//! where there are several slices: combine their results, through shared memory and one barrier
//! y[four positions] = finish(result)                          # a mean is divided here
//! ```

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::channel_reduction::{
    BLOCK_THREADS, ChannelReductionGeometry, FUSED_MIN_BLOCKS, STAGED_CHANNELS,
};
use launch_config::elementwise::Bounds;
use launch_config::norm::NormGeometry;

use crate::parts::channel_reduce::{ChannelMap, SCRATCH_ELEMENTS, channel_reduce_block};
use crate::parts::map::clamp;
use crate::parts::moments;
use crate::parts::planes::affine;
use crate::parts::reduction_operations::{ReductionOperation, of_each_operation};

shared_array! {
    /// The results of each slice of the channels.
    static INSTANCE_NORM_CHANNEL_REDUCTION_SCRATCH: [f32; SCRATCH_ELEMENTS];
}

shared_array! {
    /// Mean, factor, bias and multiplier of each staged channel.
    static INSTANCE_NORM_CHANNEL_REDUCTION_STAGED: [f32; STAGED_CHANNELS as usize * VECTOR_ELEMENTS];
}

/// `clamp((x - mean) * factor + bias) * multiplier`
#[derive(Clone, Copy)]
struct NormClampMultiply<T: Storage> {
    partials: Global<f32>,
    weight: *const T,
    bias: *const T,
    multiplier: Global<T>,
    norm: NormGeometry,
    bounds: Bounds,
    staged: Shared<f32>,
}

/// The parameters of one channel.
#[derive(Clone, Copy)]
struct Params {
    mean: f32,
    factor: f32,
    bias: f32,
    multiplier: f32,
}

impl<T: Storage> ChannelMap for NormClampMultiply<T> {
    type Params = Params;

    #[inline(always)]
    unsafe fn stage(&self, sample: u64, first: u32, count: u32) {
        // The previous channels are in use until all threads reach this barrier.
        thread::sync_threads();
        let row = sample * self.norm.channels as u64 + first as u64;
        moments::for_each_row(self.partials, &self.norm, row, count, |local, moments| {
            let channel = (first + local) as usize;
            let m = self.multiplier.load_readonly(channel).to_f32();
            let variance = moments.variance();
            let mut factor = m * math::rsqrt(math::fma(m * m, variance, self.norm.eps));
            let (channels, of) = (self.norm.channels as usize, self.norm.affine_type);
            if self.norm.weight.is_present() {
                factor *= affine(self.weight, channels, channel, of);
            }
            let bias = if self.norm.bias.is_present() {
                affine(self.bias, channels, channel, of)
            } else {
                0.0
            };
            let at = local * VECTOR_ELEMENTS as u32;
            self.staged.store_vec(at, [moments.mean, factor, bias, m]);
        });
        thread::sync_threads();
    }

    #[inline(always)]
    unsafe fn params(&self, _first: u32, local: u32) -> Params {
        let at = local * VECTOR_ELEMENTS as u32;
        let [mean, factor, bias, multiplier] = self.staged.load_vec::<VECTOR_ELEMENTS>(at);
        Params {
            mean,
            factor,
            bias,
            multiplier,
        }
    }

    #[inline(always)]
    fn apply(&self, p: Params, x: f32) -> f32 {
        clamp(self.bounds, math::fma(x - p.mean, p.factor, p.bias)) * p.multiplier
    }
}

of_each_operation! {
    of values
    /// A block reduces all multiplied, normalised, clamped and again multiplied channels at consecutive
    /// positions of one sample.
    ///
    /// *Launch*: `g.shape()`.
    /// *Mapping*: four positions a thread; the threads form `g.slices` slices, and a slice takes every
    /// `g.slices`-th channel.
    /// *Barriers*: two for every `STAGED_CHANNELS` channels, and one if there are several
    /// slices; met by all threads.
    /// *Traffic*: each element is read once, each result written once.
    ///
    /// # Safety
    /// As `channel_reduction`. `multiplier`, and `weight` and `bias` if `norm` says that they exist, have
    /// `g.channels` elements; weight and bias are f32 if `norm` says so. The statistics kernel wrote
    /// `partials` for `x` with the geometry `norm`, whose rows are channels.
    #[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = FUSED_MIN_BLOCKS)]
    pub unsafe fn instance_norm_clamp_multiply_channel_reduction<O: ReductionOperation, T: Storage>(
        x: *const T,
        partials: *const f32,
        weight: *const T,
        bias: *const T,
        multiplier: *const T,
        y: *mut T,
        norm: NormGeometry,
        g: &ChannelReductionGeometry,
        bounds: Bounds,
    ) {
        let map = NormClampMultiply {
            partials: Global::new(partials, norm.partial_elements() as usize),
            weight,
            bias,
            multiplier: Global::new(multiplier, g.channels as usize),
            norm,
            bounds,
            staged: INSTANCE_NORM_CHANNEL_REDUCTION_STAGED.view(),
        };
        let scratch = INSTANCE_NORM_CHANNEL_REDUCTION_SCRATCH.view();
        channel_reduce_block::<O, T, _>(x, g, map, scratch, |place, results| {
            place.store(y, results);
        });
    }
}
