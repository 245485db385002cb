//! Depthwise convolution of channels-last tensors on FMA units, without a norm.
//!
//! # Idea
//! The outputs of a pixel need as many products of each channel as a filter has taps, and memory should still
//! be the limit. Lanes are neighbouring vectors of four channels first, then neighbouring runs of outputs, so
//! a warp's loads and stores are whole sectors. Few instructions besides the FMAs are executed:
//!
//! 1. A thread computes a *run* of outputs of a row. A vector of the filter is loaded once for all of them.
//! 2. Where columns of the filter are side by side, the inputs of a run overlap. The thread holds a *window*
//!    of eight inputs of the row as f32. Each tap moves it by one input, which is loaded and converted once
//!    for all taps of the filter's row: input `j` takes the place of input `j - 8`.
//! 3. Rows of the input that runs below one another share are in L1: a block computes several rows.
//!
//! ```text
//! a block has runs of one sample, and up to 16 vectors of channels
//! filter = taps, bias, gain and shift of its channels, each a row of shared memory
//! barrier
//! for each run of the thread:
//!     sum[0..8] = 0
//!     for each row (t, r) of the filter:
//!         window = the row's first 8 inputs                    # 0 in the padding
//!         for each tap s:
//!             for each output i: sum[i] += window[stride * i + s] * filter[t, r, s]
//!             window[s] = input 8 + s of the row
//!     sum += bias; sum = batch norm, slope and bounds of it, rounded
//!     y = the epilogue's list of sum
//! ```
//!
//! Sums are f32, FMA in the order of the taps, and padding is multiplied as an input of 0: the results have
//! the bits of [`fn@super::depthwise_list`].

use core::ffi::c_void;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::batch_norm::FoldGeometry;
use launch_config::depthwise::PARAMETER_ROWS;
use launch_config::depthwise::nhwc::{
    LOADED_RUN, MIN_BLOCKS, NhwcGeometry, RunInputs, WINDOW_INPUTS,
};
use launch_config::implicit_gemm::Epilogue;
use launch_config::nhwc::MAX_BLOCK_THREADS;
use launch_config::pointwise::OperandList;
use launch_config::{AffineType, Presence, VECTOR_ELEMENTS};

use super::stage::Filters;
use crate::parts::batch_norm::Norm;
use crate::parts::nhwc::{BlockPlace, InputRow, Run, ThreadPlace, Vector};
use crate::parts::pointwise::{KeepsNothing, apply_with_residual};
use crate::parts::store::{GainAndShift, Store, StoreEpilogue};
use crate::parts::unroll::unroll;

/// The most outputs of a run, and the inputs of a window, as a length.
const WINDOW: usize = WINDOW_INPUTS as usize;
const _: () = assert!(WINDOW == 8);

/// Outputs that the list is applied to at a time.
const LISTED: usize = 4;

/// A block convolves runs of one sample, of some channels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: vectors of four channels to neighbouring threads, runs to the threads behind them.
/// *Barriers*: one, after filters and parameters are in shared memory.
/// *Traffic*: the input about once, the residual and each output once.
///
/// # Safety
/// `x`, `y` and, if the list has it, `residual` are channels last, 16-byte aligned and as large as the
/// geometry says; `y` does not overlap the others. `weight` has the taps of each channel side by side. `bias`
/// has a value for each channel if the geometry has one, `gain` and `shift` if the epilogue uses them, and
/// each tensor of the norm if there is a norm that has it. With a norm the epilogue has no gain and shift.
/// Input and output have less than 2^31 pixels a sample.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn depthwise_nhwc<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    gain: *const f32,
    shift: *const f32,
    running_mean: *const c_void,
    running_var: *const c_void,
    norm_weight: *const c_void,
    norm_bias: *const c_void,
    residual: *const T,
    y: *mut T,
    g: &NhwcGeometry,
    norm: FoldGeometry,
    norm_type: AffineType,
    has_norm: Presence,
    epilogue: Epilogue,
    list: &OperandList,
) {
    let store = Store {
        epilogue: StoreEpilogue {
            of_channels: GainAndShift { gain, shift },
            epilogue,
        },
        list,
        residual,
    };
    let conv = &g.conv;
    let block = BlockPlace::of(&g.blocks);
    let filters = Filters {
        weight,
        bias,
        has_bias: conv.bias,
        norm: Norm {
            running: [running_mean, running_var],
            affine: [norm_weight, norm_bias],
            geometry: norm,
            ty: norm_type,
            presence: has_norm,
        },
        epilogue: &store.epilogue,
        channels: g.blocks.channels,
        taps: conv.taps(),
        block_channels: pitch(g),
        pitch: pitch(g),
    };
    let filter = filters.stage(block.first_channel);
    thread::sync_threads();

    let Some(place) = block.of_thread(&g.blocks) else {
        return;
    };
    let filter = filter.slice(place.of_block, filter.len() - place.of_block);
    let pixels = conv.n as usize * conv.input_pixels() as usize;
    let x = Global::new(x, pixels * g.blocks.channels as usize);
    let output = [conv.z, conv.p, conv.q];
    let stride = [conv.stride_d, conv.stride_h, conv.stride_w];
    let padding = [conv.pad_d, conv.pad_h, conv.pad_w];
    let mut number = place.first_run;
    while number < place.end {
        let run = Run::of(&g.blocks, number, &output, &stride, &padding);
        let sums = if g.inputs == RunInputs::STRIDE_1 {
            convolve::<T, 1>(x, filter, g, &place, &run)
        } else if g.inputs == RunInputs::STRIDE_2 {
            convolve::<T, 2>(x, filter, g, &place, &run)
        } else {
            convolve::<T, LOADED>(x, filter, g, &place, &run)
        };
        write(y, &store, filter, g, &place, &run, sums);
        number += g.blocks.round_runs;
    }
}

/// Returns the elements between rows of shared memory. A row has a value for each channel of the block.
#[inline(always)]
fn pitch(g: &NhwcGeometry) -> u32 {
    g.blocks.block_vectors * VECTOR_ELEMENTS as u32
}

/// The `STRIDE` of runs whose inputs are loaded for each tap.
const LOADED: usize = 0;

/// Computes the sums of a run. Columns of the output are `STRIDE` columns of the input apart, and columns of
/// the filter are side by side; [`LOADED`] stands for all other runs. Sums beyond the run are of other
/// inputs, or of none.
///
/// # Safety
/// `x` is the input, `filter` begins with the thread's channels, and `run` is one of the thread's runs.
#[inline(always)]
unsafe fn convolve<T: Storage, const STRIDE: usize>(
    x: Global<T>,
    filter: Shared<f32>,
    g: &NhwcGeometry,
    place: &ThreadPlace,
    run: &Run,
) -> [Vector; WINDOW] {
    let (conv, pitch) = (&g.conv, pitch(g));
    let extents = [conv.d, conv.h, conv.w];
    let [d, h, w] = run.input;
    let mut sums = [[0.0; VECTOR_ELEMENTS]; WINDOW];
    let (mut t, mut tap) = (0, 0);
    while t < conv.t {
        let d = d.wrapping_add(t * conv.dilation_d);
        let mut r = 0;
        while r < conv.r {
            let h = h.wrapping_add(r * conv.dilation_h);
            let row = InputRow::of(x, g.blocks.channels, place, &extents, [d, h]);
            let (mut w, mut s) = (w, 0);
            if STRIDE == LOADED {
                while s < conv.s {
                    let factors = filter.load_vec(tap);
                    let mut values = [[0.0; VECTOR_ELEMENTS]; LOADED_RUN as usize];
                    unroll!(4, |i| {
                        let w = w.wrapping_add((i as u32).wrapping_mul(conv.stride_w));
                        values[i] = row.load_or(w, 0.0);
                    });
                    unroll!(4, |i| {
                        sums[i] = and_products(sums[i], values[i], factors);
                    });
                    w = w.wrapping_add(conv.dilation_w);
                    tap += pitch;
                    s += 1;
                }
            } else {
                let mut window = [[0.0; VECTOR_ELEMENTS]; WINDOW];
                // Most windows touch no padding: their loads have no conditions.
                if w < row.columns && row.columns - w >= WINDOW_INPUTS {
                    unroll!(8, |j| {
                        window[j] = row.load(w + j as u32);
                    });
                } else {
                    unroll!(8, |j| {
                        window[j] = row.load_or(w.wrapping_add(j as u32), 0.0);
                    });
                }
                w = w.wrapping_add(WINDOW_INPUTS);
                // Whenever the body begins anew, the window's first input is in its first place.
                'row: loop {
                    opaque::not_unrolled();
                    unroll!(8, |first| {
                        let factors = filter.load_vec(tap);
                        unroll!(8, |i| {
                            if STRIDE * i < WINDOW {
                                let values = window[(first + STRIDE * i) % WINDOW];
                                sums[i] = and_products(sums[i], values, factors);
                            }
                        });
                        tap += pitch;
                        s += 1;
                        if s == conv.s {
                            break 'row;
                        }
                        window[first] = row.load_or(w, 0.0);
                        w = w.wrapping_add(1);
                    });
                }
            }
            r += 1;
        }
        t += 1;
    }
    sums
}

/// Returns `sums` plus the products of values and factors, channel by channel.
#[inline(always)]
fn and_products(mut sums: Vector, values: Vector, factors: Vector) -> Vector {
    unroll!(4, |c| {
        sums[c] = math::fma(values[c], factors[c], sums[c]);
    });
    sums
}

/// Applies the epilogue and its list to a run's sums, and writes the results.
///
/// # Safety
/// As for [`fn@depthwise_nhwc`] and [`convolve`].
#[inline(always)]
unsafe fn write<T: Storage>(
    y: *mut T,
    store: &Store<'_, T>,
    filter: Shared<f32>,
    g: &NhwcGeometry,
    place: &ThreadPlace,
    run: &Run,
    mut sums: [Vector; WINDOW],
) {
    let (conv, channels) = (&g.conv, g.blocks.channels);
    let [z, p, q] = run.output;
    let [start, len] = place.of_row(channels, conv.z * conv.p, z * conv.p + p, conv.q);
    let elements = conv.n as usize * conv.output_pixels() as usize * channels as usize;
    let y = GlobalMut::new(y, elements).slice(start, len);
    let at = |output: u32| ((q + output) * channels) as usize;

    let (row, pitch) = (conv.taps() * pitch(g), pitch(g));
    let [bias, gain, shift]: [Vector; PARAMETER_ROWS as usize] = [
        filter.load_vec(row),
        filter.load_vec(row + pitch),
        filter.load_vec(row + 2 * pitch),
    ];
    let ended = |mut values: Vector| {
        unroll!(4, |c| {
            values[c] = store.epilogue.map([gain[c], shift[c]], values[c] + bias[c]);
        });
        T::from_f32_vector(values)
    };
    if store.list.is_empty() {
        unroll!(8, |i| {
            if (i as u32) < run.len {
                y.store_vec(at(i as u32), ended(sums[i]));
            }
        });
        return;
    }
    // A few outputs at a time: the list's code is written out for every value.
    let mut first = 0;
    while first < run.len {
        opaque::not_unrolled();
        let mut values = [[0.0; VECTOR_ELEMENTS]; LISTED];
        unroll!(4, |i| {
            values[i] = T::to_f32_vector(ended(sums[i]));
        });
        let mut added = [[0.0; VECTOR_ELEMENTS]; LISTED];
        if store.list.has_residual() {
            let residual = Global::new(store.residual, elements).slice(start, len);
            unroll!(4, |i| {
                if first + (i as u32) < run.len {
                    added[i] = T::to_f32_vector(residual.load_vec(at(first + i as u32)));
                }
            });
        }
        let listed = vectors(apply_with_residual::<T, 16>(
            store.list,
            flat(values),
            flat(added),
            KeepsNothing,
        ));
        unroll!(4, |i| {
            if first + (i as u32) < run.len {
                y.store_vec(at(first + i as u32), T::from_f32_vector(listed[i]));
            }
        });
        let [a, b, c, d, e, f, g, h] = sums;
        sums = [e, f, g, h, a, b, c, d];
        first += LISTED as u32;
    }
}

/// The values of vectors.
#[inline(always)]
fn flat(vectors: [Vector; LISTED]) -> [f32; LISTED * VECTOR_ELEMENTS] {
    let [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]] = vectors;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// The vectors of values.
#[inline(always)]
fn vectors(values: [f32; LISTED * VECTOR_ELEMENTS]) -> [Vector; LISTED] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = values;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]]
}
