//! `softmax` and `log_softmax` over an axis, as in PyTorch: `y = e^x / sum(e^x)`, and its logarithm.
//!
//! Exponentials are taken of the distances from the largest value, so none overflows. A NaN or a positive
//! infinity among the values makes all results NaN, as does a series of only minus infinities.

use cuda_std::{Storage, bf16, f16, kernel, math, opaque, shared_array};
use launch_config::pointwise::OperandList;
use launch_config::series::{
    BLOCK_THREADS, HELD, MAPPED, MAX_BLOCK_THREADS, MIN_BLOCKS, PART, PARTS,
};
use launch_config::softmax::SoftmaxGeometry;

use crate::parts::exponential::{exponential, ln_from_one};
use crate::parts::series::Series;
use crate::parts::series::reduce::OfParts;
use crate::parts::series::store::Operands;
use crate::parts::store::GainAndShift;
use crate::parts::unroll::unroll;

shared_array! {
    /// The largest value of each thread, or of each warp.
    static SOFTMAX_LARGEST: [f32; BLOCK_THREADS as usize];
    /// The sum of exponentials of each thread, or of each warp.
    static SOFTMAX_SUM: [f32; BLOCK_THREADS as usize];
}

/// A block computes the softmax of consecutive series, or its logarithm. It then applies a list, which may
/// contain a residual and a gain and a shift of each channel, and writes the results to `y`.
///
/// *Launch*: `g.series.shape()`.
/// *Mapping*: `g.series.threads` threads share a series and hold up to 32 values each, or up to 16 values of
/// each of two rows. If series are rows, the threads of a series are neighbours, and load vectors of four
/// where rows are vector-aligned. Else neighbouring threads have neighbouring series.
/// *Barriers*: two if several threads share a series, and it is strided or has threads of several warps.
/// *Traffic*: each element is read once, or twice if the threads of its series cannot hold all values at
/// once; the second time from the last to the first, so that caches still have a part. Each result is written
/// once, and each element of the residual is read once.
///
/// # Safety
/// `x` and `y` have `g.series.series * g.series.count` elements, more than 0, and so has `residual` if the
/// list has it. All three are 16-byte aligned, and `y` does not overlap the others. If the list has them,
/// `gain` and `shift` have a value for each channel.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
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
    let series = Series::<false>::of_thread(g);
    let operands = Operands {
        list,
        residual,
        of_channels: GainAndShift { gain, shift },
    };
    let load = |batch| series.load(x, batch, f32::NEG_INFINITY);
    let mut values = load(0);
    // Starts from a finite number, so that minus infinity is at an infinite distance from it.
    let mut own = [f32::MIN; PARTS];
    let mut sums = [0.0; PARTS];
    let mut batch = 0;
    loop {
        opaque::not_unrolled();
        let largest = series.reduced(values, math::max);
        let next = series.of_parts(|v| math::max(own[v], largest[v]));
        if batch > 0 {
            sums = [sums[0] * exponential::<T>(own[0] - next[0]); PARTS];
        }
        own = next;
        let added;
        (values, added) = exponentials::<T>(&series, batch, values, own, is_log);
        let added = series.merged(added, |a, b| a + b);
        sums = series.of_parts(|v| sums[v] + added[v]);
        batch += 1;
        if opaque::to_compiler(batch) == g.batches {
            break;
        }
        values = load(batch);
    }
    let largest = series.together(own, SOFTMAX_LARGEST.view(), math::max);
    // What the values of further batches are distances from.
    let from = if is_log { largest[0] } else { own[0] };
    if opaque::to_compiler(u32::from(is_log)) != 0 {
        unroll!(32, |i| {
            values[i] -= largest[i / PART];
        });
    }
    let scales = series.of_parts(|v| exponential::<T>(own[v] - largest[v]));
    let scaled = series.of_parts(|v| sums[v] * scales[v]);
    let sums = series.together(scaled, SOFTMAX_SUM.view(), |a, b| a + b);
    // A factor of all results, or a summand if they are logarithms. Without a finite largest value, the sum
    // is 0 or NaN.
    let last = series.of_parts(|v| {
        if sums[v] >= 1.0 {
            if is_log {
                -ln_from_one(sums[v])
            } else {
                scales[v] * math::reciprocal_normal(sums[v])
            }
        } else {
            f32::NAN
        }
    });
    // From the last batch, which the thread still holds.
    loop {
        opaque::not_unrolled();
        batch -= 1;
        if opaque::to_compiler(u32::from(is_log)) != 0 {
            unroll!(32, |i| {
                values[i] += last[i / PART];
            });
        } else {
            unroll!(32, |i| {
                values[i] *= last[i / PART];
            });
        }
        series.store(y, batch, values, operands);
        if opaque::to_compiler(batch) == 0 {
            break;
        }
        values = load(batch - 1);
        unroll!(32, |i| {
            values[i] -= from;
        });
        if !is_log {
            (values, _) = exponentials::<T>(&series, batch - 1, values, [0.0; PARTS], false);
        }
    }
}

/// Computes `e^(x - largest)` of each value that the thread has in a batch, and 0 for the others. Returns
/// them, or the values if `keeps_values`, and the sums of the parts.
#[inline(always)]
fn exponentials<T: Storage>(
    series: &Series<'_, false>,
    batch: u32,
    values: [f32; HELD],
    largest: OfParts,
    keeps_values: bool,
) -> ([f32; HELD], OfParts) {
    let mut kept = values;
    let mut sums = [0.0; PARTS];
    unroll!(4, |some| {
        let first = some * MAPPED;
        let mut exponentials = [0.0; MAPPED];
        // Of the values of short series, most are absent.
        if series.has(batch, first) {
            unroll!(8, |i| {
                let distance = values[first + i] - largest[first / PART];
                exponentials[i] = exponential::<T>(distance);
            });
        }
        let [a, b, c, d, e, f, g, h] = exponentials;
        sums[first / PART] += ((a + b) + (c + d)) + ((e + f) + (g + h));
        unroll!(8, |i| {
            let value = if keeps_values {
                values[first + i]
            } else {
                exponentials[i]
            };
            // Chosen here: otherwise both would stay in registers.
            kept[first + i] = f32::from_bits(opaque::to_compiler(value.to_bits()));
        });
    });
    (kept, sums)
}
