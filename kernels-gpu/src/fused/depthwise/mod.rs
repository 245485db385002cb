//! Depthwise convolution on FMA units, with moments for a norm and pooling in the epilogue.
//!
//! # Idea
//! A convolution of one channel a group has only a few products for each value that it reads. Tensor cores
//! would idle, and memory should be the limit. The kernel therefore reads the input once, writes the output
//! at most once, and executes few instructions besides the FMAs:
//!
//! 1. Lanes are neighbouring columns, and each has up to `ITEM_ROWS` rows below one another: an *item* of the
//!    warp. For each tap a lane loads its rows' values, and the filter's value once for all of them. Loads
//!    that neighbouring taps and rows repeat hit L1.
//! 2. Most items touch no padding and are computed without tests for it. Items that touch it only beside
//!    columns have one test a column. Padding is multiplied as an input of 0, so an infinite filter value
//!    gives NaN there, as in PyTorch.
//! 3. If pooling windows do not overlap, only the value of each window is written that pooling would take
//!    after the norm (`parts::extrema`).
//!
//! ```text
//! a block has up to 32 items of one channel of one sample
//! filter = the channel's taps, to shared memory
//! barrier
//! for each item of the warp, a column to a lane:
//!     sum[0..8] = 0
//!     for each tap (t, r, s):
//!         factor = filter[t, r, s]
//!         for each row i of the item:                          # 8 loads in flight
//!             sum[i] += x[input slice + t][input row i + r][input column + s] * factor   # 0 in the padding
//!     sum += bias; without a norm: sum = batch norm, slope and bounds of it, rounded
//!     moments += moments of the rows of `sum` that are in the output
//!     with a pool: largest = max of sign * sum, down the rows of a window in registers
//!                  largest = max over the window's columns, by shuffles
//!                  y[window] = sign * largest             # sign = -1 where norm and scale reverse the order
//!     without one: y[row i][column] = the epilogue's list of sum[i]
//! moments of the block: combined over lanes, then, after a barrier, over warps
//! ```
//!
//! Sums are f32, FMA in the order of the taps. `launch_config::depthwise` defines the items.
//!
//! # Barriers
//! All threads reach all barriers: one after the filter is in shared memory, one between the warps' moments
//! and their combination. Warps go through their items on their own.

use core::ptr;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared;
use cuda_std::{Storage, bf16, f16, kernel, shared_array, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::depthwise::{
    BLOCK_ITEMS, DepthwiseGeometry, MAX_BLOCK_THREADS, MAX_WARPS, MIN_BLOCKS,
};
use launch_config::implicit_gemm::Epilogue;
use launch_config::norm::COUNTED_ELEMENTS;
use launch_config::pointwise::OperandList;

use crate::parts::extrema::is_reversed;
use crate::parts::index::div_rem;
use crate::parts::moments::{Moments, WARP_SLOT, stored};
use crate::parts::store::{GainAndShift, Store, StoreEpilogue};
use crate::parts::unroll::unroll;

mod item;
pub mod nhwc;
mod results;
pub mod rolling;
mod stage;

use item::{Item, convolve_edge, convolve_inner};
use results::{listed, write_rows, write_windows};

shared_array! {
    /// The moments of each warp.
    static DEPTHWISE_WARPS: [f32; (MAX_WARPS * WARP_SLOT) as usize];
}

/// A block convolves items of one channel of one sample, and takes moments and, where outputs are
/// pooled, extrema.
///
/// *Launch*: `g.shape()`. *Mapping*: items of a block to its warps in turn; columns to lanes.
/// *Barriers*: at the head of the module. *Traffic*: the input about once; each output, or the
/// extremum of each window, once.
///
/// # Safety
/// The tensors are as large as the geometry says. `y` and `moments` do not overlap the other tensors, and
/// `moments` is 16-byte aligned. `bias`, `norm_weight` and `scale` have a value for each channel. `bias` is
/// read only if the geometry has one, `norm_weight` and `scale` only if outputs are pooled, and `norm_weight`
/// only if it is not null. Planes have less than 2^31 elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn depthwise<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    norm_weight: *const T,
    scale: *const T,
    y: *mut T,
    moments: *mut f32,
    g: &DepthwiseGeometry,
) {
    let tensors = (x, weight, bias, y);
    convolve(tensors, (norm_weight, scale), moments, g, None);
}

/// The depthwise convolution without a norm. Batch norm, functions and a residual are applied before results
/// are written.
///
/// # Safety
/// As for [`fn@depthwise`]; nothing is pooled. `gain` and `shift` have a value for each channel if the
/// epilogue uses them. `residual` has a value for each output if the list uses it, and does not overlap `y`.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn depthwise_list<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    gain: *const f32,
    shift: *const f32,
    residual: *const T,
    y: *mut T,
    g: &DepthwiseGeometry,
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
    let (tensors, none) = ((x, weight, bias, y), ptr::null());
    convolve(tensors, (none, none), ptr::null_mut(), g, Some(&store));
}

/// The body of both kernels: without a norm if there is a `store`.
#[inline(always)]
unsafe fn convolve<T: Storage>(
    (x, weight, bias, y): (*const T, *const T, *const T, *mut T),
    (norm_weight, scale): (*const T, *const T),
    moments: *mut f32,
    g: &DepthwiseGeometry,
    store: Option<&Store<'_, T>>,
) {
    let conv = &g.conv;
    let channels = conv.output_channels();
    let planes = conv.n as usize * channels as usize;
    let (plane, block_in_plane) = div_rem(thread::block_idx_x(), g.plane_blocks);
    let (_, channel) = div_rem(plane, channels);
    let channel = channel as usize;
    let (plane, block_in_plane) = (plane as usize, block_in_plane as usize);
    // With one filter to a channel, a plane has the same index in input and output.
    let inputs = conv.input_pixels() as usize;
    let x = Global::new(x, planes * inputs).slice(plane * inputs, inputs);
    let outputs = if store.is_none() && g.pool_h > 0 {
        (g.pooled_h * g.pooled_w) as usize
    } else {
        conv.output_pixels() as usize
    };
    let y = GlobalMut::new(y, planes * outputs).slice(plane * outputs, outputs);

    let taps = conv.taps();
    let filter = shared::dynamic::<f32>(0, taps);
    let weight = Global::new(weight, channels as usize * taps as usize);
    let mut tap = thread::thread_idx_x();
    while tap < taps {
        let value = weight.load_readonly(channel * taps as usize + tap as usize);
        filter.store(tap, value.to_f32());
        tap += thread::block_dim_x();
    }
    let bias = if conv.bias.is_present() {
        Global::new(bias, channels as usize)
            .load_readonly(channel)
            .to_f32()
    } else {
        0.0
    };
    let map = store.map(|store| store.epilogue.of_channel(channel, channels as usize));
    let pooled = store.is_none() && g.pool_h > 0;
    let reversed = pooled && is_reversed(norm_weight, scale, channels as usize, channel);
    let sign = if reversed { -1.0 } else { 1.0 };
    thread::sync_threads();

    let first = block_in_plane as u32 * BLOCK_ITEMS;
    let end = (first + BLOCK_ITEMS).min(g.items());
    let warps = thread::block_dim_x() / WARP_THREADS;
    let mut item = first + thread::thread_idx_x() / WARP_THREADS;
    let mut all = Moments::EMPTY;
    while item < end {
        let place = Item::of(g, item);
        let mut sums = match (place.rows_inside, place.columns_inside) {
            (true, true) => convolve_inner::<T, true>(x, filter, g, &place),
            (true, false) => convolve_inner::<T, false>(x, filter, g, &place),
            (false, _) => convolve_edge(x, filter, g, &place),
        };
        // The norm reads values rounded to the storage type, so moments are of rounded values.
        unroll!(4, |i| {
            let mut pair = [sums[2 * i] + bias, sums[2 * i + 1] + bias];
            if let (Some(store), Some(map)) = (store, map) {
                pair = pair.map(|sum| store.epilogue.map(map, sum));
            }
            [sums[2 * i], sums[2 * i + 1]] = stored::<T>(pair);
        });
        warp::sync_warp(warp::ALL_LANES);
        let rows = if place.is_column {
            (conv.p - place.p).min(g.item_rows)
        } else {
            0
        };
        if store.is_none() {
            all = all.and(Moments::of_first(&sums, rows));
        }
        if pooled {
            warp::sync_warp(warp::ALL_LANES);
            write_windows(y, g, &place, &sums, sign);
        } else {
            if let Some(store) = store {
                let residual = Global::new(store.residual, planes * outputs);
                let residual = residual.slice(plane * outputs, outputs);
                sums = listed(store.list, residual, (g, &place), rows, sums);
            }
            write_rows(y, g, &place, rows, &sums);
        }
        item += warps;
    }

    if store.is_some() {
        return;
    }
    let all = all.of_block(DEPTHWISE_WARPS.view(), warps);
    if thread::thread_idx_x() == 0 {
        let at = plane * g.plane_blocks as usize + block_in_plane;
        GlobalMut::new(moments, g.moment_elements() as usize)
            .store_vec(at * COUNTED_ELEMENTS, [all.count, all.mean, all.m2, 0.0]);
    }
}
