//! `batch_norm` at inference: four parameters of a channel are two constants, by which each element is
//! mapped.
//!
//! The constants are made once per parameters, in f64, and kept in f32 whatever the tensors store. So a
//! result has the error of one fma and of its two constants' rounding. A convolution's kernel can apply the
//! same two to its sums.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::math::GpuFloat;
use cuda_std::thread;
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::batch_norm::FoldGeometry;
use launch_config::elementwise::{BLOCK_THREADS, ChannelGeometry, FOLD_THREADS, MIN_BLOCKS};

use crate::parts::elementwise::{block_start, map_block};
use crate::parts::index::Channels;
use crate::parts::map::ChannelAffine;

/// A block folds the parameters of `FOLD_THREADS` channels: `gain = weight / sqrt(running_var + eps)` and
/// `shift = bias - running_mean * gain`, in f64, rounded once to f32.
///
/// *Launch*: `elementwise::fold_shape(g.channels)`.
/// *Mapping*: one channel a thread.
/// *Barriers*: none.
/// *Traffic*: two to four numbers are read and two written per channel.
///
/// # Safety
/// The tensors have `g.channels` elements, `weight` and `bias` only if they are said to exist; the outputs
/// are apart from each other and from the inputs.
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
    let of_channel = |values| f64::from(Global::<T>::new(values, len).load(at).to_f32());
    let mean = of_channel(running_mean);
    let variance = of_channel(running_var);
    let weight = if g.weight.is_present() {
        of_channel(weight)
    } else {
        1.0
    };
    let bias = if g.bias.is_present() {
        of_channel(bias)
    } else {
        0.0
    };
    let exact = weight / GpuFloat::sqrt(variance + g.eps);
    GlobalMut::new(gain, len).store(at, exact as f32);
    GlobalMut::new(shift, len).store(at, (bias - mean * exact) as f32);
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
/// `x` and `y` have `g.elements` elements and start on 16 bytes, `gain` and `shift` have `g.channels`; `y` is
/// `x` or apart from it.
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
