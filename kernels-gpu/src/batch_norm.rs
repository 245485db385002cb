//! `batch_norm`. At inference, the four parameters of a channel are folded into a gain and a shift, which map
//! each element. With batch statistics it is an instance norm in which each row has the moments of its
//! channel over the whole batch.
//!
//! Gain and shift are computed once per parameters, in f64, and stored in f32 for every storage type. A
//! result then has the error of one FMA and of the rounding of both constants. A convolution's epilogue can
//! apply the same two constants.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use cuda_std::{math, shared_array, thread};
use launch_config::WARP_THREADS;
use launch_config::batch_norm::{BatchMoments, FoldGeometry};
use launch_config::elementwise::{BLOCK_THREADS, ChannelGeometry, FOLD_THREADS, MIN_BLOCKS};
use launch_config::norm::{PARTIAL_ELEMENTS, STATS_THREADS};

use crate::parts::batch_norm::BatchNorm;
use crate::parts::elementwise::{block_start, map_block};
use crate::parts::index::{Channels, div_rem_u64};
use crate::parts::map::ChannelAffine;
use crate::parts::moments::{self, Moments, WARP_SLOT};

/// Warps of a `batch_norm_moments` block.
const MOMENTS_WARPS: u32 = STATS_THREADS / WARP_THREADS;

shared_array! {
    /// The moments of each warp.
    static BATCH_NORM_WARPS: [f32; (MOMENTS_WARPS * WARP_SLOT) as usize];
    /// Mean and variance of the channel.
    static BATCH_NORM_CHANNEL: [f32; PARTIAL_ELEMENTS];
}

/// A block folds the parameters of `FOLD_THREADS` channels: `gain = weight / sqrt(running_var + eps)` and
/// `shift = bias - running_mean * gain`, in f64, rounded once to f32.
///
/// *Launch*: `elementwise::fold_shape(g.channels)`.
/// *Mapping*: one channel a thread.
/// *Barriers*: none.
/// *Traffic*: two to four numbers are read and two written per channel.
///
/// # Safety
/// The tensors have `g.channels` elements, `weight` and `bias` only if the geometry marks them as present.
/// The outputs overlap neither each other nor the inputs.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = FOLD_THREADS)]
pub unsafe fn fold_batch_norm<T: Storage>(
    running_mean: *const T,
    running_var: *const T,
    weight: *const T,
    bias: *const T,
    gain: *mut f32,
    shift: *mut f32,
    g: FoldGeometry,
) {
    let channel = thread::index_1d();
    if channel >= g.channels {
        return;
    }
    let (at, len) = (channel as usize, g.channels as usize);
    let norm = BatchNorm {
        running_mean,
        running_var,
        weight,
        bias,
    };
    let [folded_gain, folded_shift] = norm.folded(at, &g);
    GlobalMut::new(gain, len).store(at, folded_gain);
    GlobalMut::new(shift, len).store(at, folded_shift);
}

/// A block maps `BLOCK_ELEMENTS` consecutive elements of `x` into `y` by `fma(gain, x, shift)` of their
/// channels.
///
/// *Launch*: `elementwise::shape(g.elements)`.
/// *Mapping*: four vectors a thread, a block's width apart.
/// *Barriers*: none.
/// *Traffic*: each element is read once and written once; the constants come from cache.
///
/// # Safety
/// `x` and `y` have `g.elements` elements and are 16-byte aligned, `gain` and `shift` have `g.channels`. `y`
/// is `x` or does not overlap it.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn batch_norm<T: Storage>(
    x: *const T,
    gain: *const f32,
    shift: *const f32,
    y: *mut T,
    g: ChannelGeometry,
) {
    let x = Global::new(x, g.elements as usize);
    let y = GlobalMut::new(y, g.elements as usize);
    map_block(x, y, || ChannelAffine {
        gain: Global::new(gain, g.channels as usize),
        shift: Global::new(shift, g.channels as usize),
        channels: Channels::from(block_start(), g.spatial, g.channels),
    });
}

/// A block combines the moments of a channel's rows into the moments of the whole batch and writes these for
/// each row. It also updates the channel's running statistics, with the unbiased variance.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: the partial results of the channel go to the threads in turn, and so do its rows.
/// *Barriers*: two.
/// *Traffic*: each partial result is read once, and eight bytes are written per row. For running statistics,
/// eight bytes are read and eight are written per channel.
///
/// # Safety
/// `partials` has `g.norm.partial_elements()` elements and `of_batch` two for each row; both are 16-byte
/// aligned. `running_mean`, `running_var`, `new_mean` and `new_var` have an element for each channel if the
/// geometry marks running statistics as present. `new_mean` may be `running_mean`, and `new_var` may be
/// `running_var`. Rows are channels of samples, and are not empty.
#[kernel(max_threads = STATS_THREADS)]
pub unsafe fn batch_norm_moments(
    partials: *const f32,
    of_batch: *mut f32,
    running_mean: *const f32,
    running_var: *const f32,
    new_mean: *mut f32,
    new_var: *mut f32,
    g: BatchMoments,
) {
    let norm = &g.norm;
    let partials = Global::new(partials, norm.partial_elements() as usize);
    let of_batch = GlobalMut::new(of_batch, norm.rows as usize * PARTIAL_ELEMENTS);
    let (channel, thread) = (thread::block_idx_x(), thread::thread_idx_x() as u64);
    let channels = norm.channels as usize;
    let (samples, _) = div_rem_u64(norm.rows, norm.channels as u64);
    let row = |sample: u64| sample * norm.channels as u64 + channel as u64;

    let splits = norm.splits as u64;
    let mut mine = Moments::EMPTY;
    let mut index = thread;
    while index < samples * splits {
        let (sample, split) = div_rem_u64(index, splits);
        mine = mine.and(moments::partial(partials, norm, row(sample), split as u32));
        index += STATS_THREADS as u64;
    }
    let all = mine.of_block(BATCH_NORM_WARPS.view(), MOMENTS_WARPS);
    let shared = BATCH_NORM_CHANNEL.view();
    if thread == 0 {
        shared.store(0, all.mean);
        shared.store(1, all.variance());
        if g.running.is_present() {
            let at = channel as usize;
            let renewed = |running: *const f32, value: f32| {
                let running = Global::<f32>::new(running, channels).load(at);
                math::fma(g.momentum, value, (1.0 - g.momentum) * running)
            };
            let unbiased = all.m2 / (samples * norm.row_elements - 1) as f32;
            GlobalMut::new(new_mean, channels).store(at, renewed(running_mean, all.mean));
            GlobalMut::new(new_var, channels).store(at, renewed(running_var, unbiased));
        }
    }
    thread::sync_threads();
    let (mean, variance) = (shared.load(0), shared.load(1));
    let m2 = variance * norm.row_elements as f32;
    let mut sample = thread;
    while sample < samples {
        of_batch.store_vec(row(sample) as usize * PARTIAL_ELEMENTS, [mean, m2]);
        sample += STATS_THREADS as u64;
    }
}
