//! `softmax` and `log_softmax` over an axis, as in PyTorch: `y = e^x / sum(e^x)`, and its logarithm.
//!
//! Exponentials are taken of the distances from the largest value, so none overflows. A NaN or a positive
//! infinity among the values makes all results NaN, as does a series of only minus infinities.

use cuda_std::{Storage, bf16, f16, kernel, math, opaque, shared_array};
use launch_config::pointwise::OperandList;
use launch_config::series::{BLOCK_THREADS, HELD, MIN_BLOCKS};
use launch_config::softmax::SoftmaxGeometry;

use crate::parts::exponential::{exponential, ln_from_one};
use crate::parts::series::{Operands, Series, sum_of};
use crate::parts::store::GainAndShift;
use crate::parts::unroll::unroll;

shared_array! {
    /// The largest value of each thread.
    static SOFTMAX_LARGEST: [f32; BLOCK_THREADS as usize];
    /// The sum of exponentials of each thread.
    static SOFTMAX_SUM: [f32; BLOCK_THREADS as usize];
}

/// A block computes the softmax of consecutive series, or its logarithm. It then applies a list, which may
/// contain a residual and a gain and a shift of each channel, and writes the results to `y`.
///
/// *Launch*: `g.series.shape()`.
/// *Mapping*: `g.series.threads` threads share a series and hold up to 32 values each. If series are rows,
/// the threads of a series are neighbours, and load vectors of four where rows are vector-aligned. Else
/// neighbouring threads have neighbouring series.
/// *Barriers*: two if a series has threads of several warps.
/// *Traffic*: each element is read once, or twice if the threads of its series cannot hold all values at
/// once. Each result is written once, and each element of the residual is read once.
///
/// # Safety
/// `x` and `y` have `g.series.series * g.series.count` elements, more than 0, and so has `residual` if the
/// list has it. All three are 16-byte aligned, and `y` does not overlap the others. If the list has them,
/// `gain` and `shift` have a value for each channel.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn softmax<T: Storage>(
    x: *const T,
    residual: *const T,
    gain: *const f32,
    shift: *const f32,
    y: *mut T,
    g: &SoftmaxGeometry,
    list: &OperandList,
) {
    let (is_log, g) = (g.is_log.is_present(), &g.series);
    let series = Series::of_thread(g);
    let operands = Operands {
        list,
        residual,
        of_channels: GainAndShift { gain, shift },
    };
    let load = |batch| series.load(x, batch, f32::NEG_INFINITY);
    let is_held = g.batches == 1;
    let mut values = load(0);
    // Starts from a finite number, so that minus infinity is at an infinite distance from it.
    let mut largest = largest_of(f32::MIN, values);
    let mut sum = 0.0;
    if !is_held {
        let mut batch = 0;
        while batch < g.batches {
            values = load(batch);
            let next = largest_of(largest, values);
            sum *= exponential::<T>(largest - next);
            largest = next;
            sum += sum_of(exponentials::<T>(&series, batch, values, largest));
            batch += 1;
        }
    }
    let own = largest;
    largest = series.together(own, SOFTMAX_LARGEST.view(), math::max);
    if is_held {
        let exponentials = exponentials::<T>(&series, 0, values, largest);
        sum = sum_of(exponentials);
        if !is_log {
            values = exponentials;
        }
    } else {
        sum *= exponential::<T>(own - largest);
    }
    sum = series.together(sum, SOFTMAX_SUM.view(), |a, b| a + b);
    // Without a finite largest value, the sum is 0 or NaN.
    let factor = if sum >= 1.0 { 1.0 / sum } else { f32::NAN };
    let logarithm = if sum >= 1.0 {
        ln_from_one(sum)
    } else {
        f32::NAN
    };
    let mut batch = 0;
    while batch < g.batches {
        opaque::not_unrolled();
        if opaque::to_compiler(g.batches) > 1 {
            values = load(batch);
            if !is_log {
                values = exponentials::<T>(&series, batch, values, largest);
            }
        }
        series.store(y, batch, values, operands, |_, values| {
            values.map(|value| match is_log {
                true => value - largest - logarithm,
                false => value * factor,
            })
        });
        batch += 1;
    }
}

/// Returns the largest of the values and `largest`. NaN is skipped here: it makes the sum NaN.
#[inline(always)]
fn largest_of(largest: f32, values: [f32; HELD]) -> f32 {
    let mut largest = largest;
    unroll!(16, |i| {
        largest = math::max(largest, math::max(values[i], values[i + 16]));
    });
    largest
}

/// Computes `e^(x - largest)` of each value that the thread has in a batch, and 0 for absent values.
#[inline(always)]
fn exponentials<T: Storage>(
    series: &Series<'_>,
    batch: u32,
    values: [f32; HELD],
    largest: f32,
) -> [f32; HELD] {
    let mut exponentials = [0.0; HELD];
    unroll!(4, |part| {
        let first = part * (HELD / 4);
        if series.has(batch, first) {
            unroll!(8, |i| {
                let distance = values[first + i] - largest;
                exponentials[first + i] = exponential::<T>(distance);
            });
        }
    });
    exponentials
}
