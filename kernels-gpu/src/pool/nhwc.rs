//! Pools of channels-last tensors: the maximum, also of images, or the average of each window.
//!
//! # Idea
//! Lanes are neighbouring vectors of four channels first, then neighbouring runs of four outputs of a row, so
//! a warp's loads and stores are whole sectors. A thread decides once a row of its windows whether the row is
//! in the input, and has the four loads of a tap in flight. Elements that windows share hit L1.
//!
//! ```text
//! for each run of the thread:
//!     result[0..4] = none                                      # -inf, or 0
//!     for each slice t and row r of the window:
//!         for each column s:
//!             value[o] = x[slice + t][row + r][column + stride * o + s], or none in the padding
//!             of_row[o] = of_row[o] and value[o]
//!     y = result, or result / divisor
//! ```
//!
//! Averages are summed in the order of [`fn@super::pool`], with a sum for the row, the slice and the window.
//! Maxima need one value for all three, since their order changes no bit. The results have the bits of the
//! kernels for dense tensors.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::VECTOR_ELEMENTS;
use launch_config::nhwc::MAX_BLOCK_THREADS;
use launch_config::pool::{
    NHWC_MAXIMUM_MIN_BLOCKS, NHWC_MIN_BLOCKS, NhwcWindowGeometry, OUTPUTS_PER_THREAD,
};

use super::{Reduction, divisor};
use crate::parts::nhwc::{BlockPlace, InputRow, Run, Vector};
use crate::parts::unroll::unroll;

/// A block takes the maxima of runs of windows of one sample, for some channels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: vectors of four channels to neighbouring threads, runs to the threads behind them.
/// *Barriers*: none.
/// *Traffic*: each element of a window is read once from cache, each element of the input about once from
/// memory; each output is written once.
///
/// # Safety
/// As for [`fn@super::pool`], but that `x` and `y` are channels last and start on 16 bytes; `g` is of maxima.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = NHWC_MAXIMUM_MIN_BLOCKS)]
pub unsafe fn max_pool_nhwc<T: Storage>(x: *const T, y: *mut T, g: &NhwcWindowGeometry) {
    reduce_runs(x, y, g, Reduction { is_maximum: true });
}

/// The same for averages.
///
/// *Launch*, *Mapping*, *Barriers*, *Traffic*: as there.
///
/// # Safety
/// As for [`fn@max_pool_nhwc`]; `g` is of averages.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = NHWC_MIN_BLOCKS)]
pub unsafe fn avg_pool_nhwc<T: Storage>(x: *const T, y: *mut T, g: &NhwcWindowGeometry) {
    reduce_runs(x, y, g, Reduction { is_maximum: false });
}

/// Reduces the windows of a thread's runs.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn reduce_runs<T: Storage>(
    x: *const T,
    y: *mut T,
    g: &NhwcWindowGeometry,
    reduction: Reduction,
) {
    let (blocks, g) = (&g.blocks, &g.windows);
    let Some(place) = BlockPlace::of(blocks).of_thread(blocks) else {
        return;
    };
    let x = Global::new(x, (g.planes * g.plane_elements()) as usize);
    let y = GlobalMut::new(y, (g.planes * g.plane_outputs()) as usize);
    let none = [reduction.none(); VECTOR_ELEMENTS];
    let and = |mut a: Vector, b: Vector| {
        unroll!(4, |c| {
            a[c] = reduction.and(a[c], b[c]);
        });
        a
    };
    // A maximum needs no level of its own for rows and slices.
    let level = |outer: [Vector; OUTPUTS_PER_THREAD]| match reduction.is_maximum {
        true => outer,
        false => [none; OUTPUTS_PER_THREAD],
    };
    let leave = |mut outer: [Vector; OUTPUTS_PER_THREAD], inner: [Vector; OUTPUTS_PER_THREAD]| {
        if reduction.is_maximum {
            return inner;
        }
        unroll!(4, |o| {
            outer[o] = and(outer[o], inner[o]);
        });
        outer
    };
    let mut number = place.first_run;
    while number < place.end {
        let run = Run::of(blocks, number, &g.output, &g.stride, &g.padding);
        let [d, h, first] = run.input;
        let mut results = [none; OUTPUTS_PER_THREAD];
        let mut t = 0;
        while t < g.kernel[0] {
            let d = d.wrapping_add(t * g.dilation[0]);
            let mut of_slice = level(results);
            let mut r = 0;
            while r < g.kernel[1] {
                let h = h.wrapping_add(r * g.dilation[1]);
                let row = InputRow::of(x, blocks.channels, &place, &g.input, [d, h]);
                let mut of_row = level(of_slice);
                let (mut w, mut s) = (first, 0);
                while s < g.kernel[2] {
                    let mut values = [none; OUTPUTS_PER_THREAD];
                    unroll!(4, |o| {
                        let w = w.wrapping_add((o as u32).wrapping_mul(g.stride[2]));
                        values[o] = row.load_or(w, reduction.none());
                    });
                    unroll!(4, |o| {
                        of_row[o] = and(of_row[o], values[o]);
                    });
                    w = w.wrapping_add(g.dilation[2]);
                    s += 1;
                }
                of_slice = leave(of_slice, of_row);
                r += 1;
            }
            results = leave(results, of_slice);
            t += 1;
        }

        let [z, p, q] = run.output;
        let (rows, row) = (g.output[0] * g.output[1], z * g.output[1] + p);
        let [start, len] = place.of_row(blocks.channels, rows, row, g.output[2]);
        let y = y.slice(start, len);
        let mut o = 0;
        while o < run.len {
            let mut result = results[0];
            unroll!(4, |c| {
                result[c] = reduction.result(result[c], || divisor(g, [z, p, q + o]));
            });
            y.store_vec(
                ((q + o) * blocks.channels) as usize,
                T::from_f32_vector(result),
            );
            results = [results[1], results[2], results[3], results[0]];
            o += 1;
        }
        number += blocks.round_runs;
    }
}
