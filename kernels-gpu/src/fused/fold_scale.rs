//! `scale` folded into the weight and bias of the norm before it: `(x w + b) s = x (w s) + (b s)`.
//!
//! The fold runs once for given parameters and makes the scale free. It is exact up to rounding for finite
//! parameters; an infinite scale gives NaN where the unfolded chain may give an infinity.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::thread;
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::Presence;
use launch_config::elementwise::FOLD_THREADS;

/// A block folds the scale of `FOLD_THREADS` channels into their weight and bias, which are 1 and 0 if the
/// norm has none.
///
/// *Launch*: `elementwise::fold_shape(channels)`.
/// *Mapping*: one channel a thread.
/// *Barriers*: none.
/// *Traffic*: three numbers are read and two written per channel.
///
/// # Safety
/// The tensors have `channels` elements, `weight` and `bias` only if they are said to exist. The outputs do
/// not overlap each other or the inputs.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = FOLD_THREADS)]
pub unsafe fn fold_scale<T: Storage>(
    weight: *const T,
    bias: *const T,
    scale: *const T,
    folded_weight: *mut T,
    folded_bias: *mut T,
    channels: u32,
    has_weight: Presence,
    has_bias: Presence,
) {
    let channel = thread::index_1d();
    if channel >= channels {
        return;
    }
    let (at, len) = (channel as usize, channels as usize);
    let scale = Global::new(scale, len).load(at).to_f32();
    let weight = if has_weight.is_present() {
        Global::new(weight, len).load(at).to_f32()
    } else {
        1.0
    };
    let bias = if has_bias.is_present() {
        Global::new(bias, len).load(at).to_f32()
    } else {
        0.0
    };
    GlobalMut::new(folded_weight, len).store(at, T::from_f32(weight * scale));
    GlobalMut::new(folded_bias, len).store(at, T::from_f32(bias * scale));
}
