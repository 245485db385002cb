//! Arithmetic with a broadcast parameter, folded into a gain and a shift of each channel.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::thread;
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::arithmetic::ArithmeticFold;
use launch_config::elementwise::FOLD_THREADS;

/// A block folds an operation into the gains and shifts of `FOLD_THREADS` channels, in f64, rounded once to
/// f32: `op(gain * x + shift)` is `(a * gain) * x + (a * shift + b)`, where the operation is `a * x + b`.
///
/// A shift of 0 keeps its sign. So a product followed by a shift of -0 has the sign of the product.
///
/// *Launch*: `elementwise::fold_shape(g.channels)`.
/// *Mapping*: one channel a thread.
/// *Barriers*: none.
/// *Traffic*: one to three numbers are read and two written per channel.
///
/// # Safety
/// `other` has `g.values` elements, 1 or `g.channels`. `to_gain` and `to_shift` have `g.channels`, and so
/// have `gain` and `shift` if the geometry marks them as present. The outputs overlap neither each other nor
/// the inputs.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = FOLD_THREADS)]
pub unsafe fn fold_arithmetic<T: Storage>(
    other: *const T,
    gain: *const f32,
    shift: *const f32,
    to_gain: *mut f32,
    to_shift: *mut f32,
    g: ArithmeticFold,
) {
    let channel = thread::index_1d();
    if channel >= g.channels {
        return;
    }
    let (at, len) = (channel as usize, g.channels as usize);
    let value = if g.values == 1 { 0 } else { at };
    let other = Global::<T>::new(other, g.values as usize).load(value);
    let [factor, summand] = g.operation.gain_and_shift(f64::from(other.to_f32()));
    let [gain, shift] = if g.folded.is_present() {
        let of_channel = |values| f64::from(Global::<f32>::new(values, len).load(at));
        let (gain, shift) = (of_channel(gain), of_channel(shift));
        let scaled = if shift == 0.0 { shift } else { factor * shift };
        [factor * gain, scaled + summand]
    } else {
        [factor, summand]
    };
    GlobalMut::new(to_gain, len).store(at, gain as f32);
    GlobalMut::new(to_shift, len).store(at, shift as f32);
}
