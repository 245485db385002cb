//! Means and sums of a convolution's results over all positions, without the convolution.
//!
//! # Idea
//! A convolution is linear. The sum of its results is therefore, for each output channel,
//! ```text
//! sum over channels c and taps t of  weight[c][t] * sum[c][t]
//! sum[c][t] = the sum of the inputs of channel c that meet tap t
//! ```
//! Inputs at the edges do not meet every tap. `launch_config::conv_mean` has the positions that do.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, kernel, opaque, shared_array, thread};
use launch_config::WARP_THREADS;
use launch_config::conv_mean::{
    BLOCK_THREADS, ConvMeanGeometry, MAX_AXIS_TAPS, MIN_BLOCKS, Positions, TapSumsGeometry,
};

use crate::parts::index::{div_rem, div_rem_u64};
use crate::parts::lanes::sum_of_lanes;
use crate::parts::unroll::unroll;

/// Warps of a block.
const WARPS: u32 = BLOCK_THREADS / WARP_THREADS;

/// Elements of a row that a lane loads before it adds the first of them.
const IN_FLIGHT: usize = 4;

shared_array! {
    /// The sums of each warp, one for each tap.
    static TAP_SUMS: [f32; BLOCK_THREADS as usize];
}

/// A block sums the inputs of a plane that meet each tap of a filter.
///
/// *Launch*: `g.shape()`. *Mapping*: a warp takes every eighth row, and each lane of it every 32nd column.
/// Lanes add their columns for each tap along the row; then a lane has one tap of the filter, and adds the
/// row's sum if the row meets it. *Barriers*: one, between the sums of the warps and those of the block.
/// *Traffic*: each element is read once; each sum is written once.
///
/// # Safety
/// `x` has `g.planes` planes of the extents `g.input`, and `sums` `g.all_taps()` elements for each.
#[kernel(instances(T: [f32]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn conv_tap_sums<T: Storage>(x: *const T, sums: *mut f32, g: &TapSumsGeometry) {
    let [depth, height, width] = g.input;
    let plane_elements = depth as usize * height as usize * width as usize;
    let plane = thread::block_idx_x() as usize;
    let x = Global::new(x.wrapping_add(plane * plane_elements), plane_elements);
    let (thread, taps) = (thread::thread_idx_x(), g.all_taps());
    let (warp, lane) = (thread / WARP_THREADS, thread % WARP_THREADS);
    // Lanes without a tap add nothing.
    let (rest, s) = div_rem(lane, g.taps[2]);
    let (t, r) = div_rem(rest, g.taps[1]);
    let of_slice = nth(&g.positions[0], t);
    let of_row = nth(&g.positions[1], r);
    let mut sum = 0.0;
    let mut row = warp;
    while row < depth * height {
        opaque::not_unrolled();
        let columns = of_columns(x, g, row, lane);
        let (d, h) = div_rem(row, height);
        let mut own = columns[0];
        unroll!(8, |i| {
            if s == i as u32 {
                own = columns[i];
            }
        });
        if meets(of_slice, g.steps[0], d) && meets(of_row, g.steps[1], h) {
            sum += own;
        }
        row += WARPS;
    }
    let all = TAP_SUMS.view();
    all.store(thread, sum);
    thread::sync_threads();
    if thread < taps {
        let mut total = 0.0;
        unroll!(8, |i| {
            total += all.load(i as u32 * WARP_THREADS + thread);
        });
        let sums = GlobalMut::new(sums, g.planes as usize * taps as usize);
        sums.store(plane * taps as usize + thread as usize, total);
    }
}
const _: () = assert!(WARPS == 8 && MAX_AXIS_TAPS == 8);

/// Returns the sums of the elements of row `row` that meet each tap along it, in all lanes.
///
/// # Safety
/// All lanes of the warp make this call together, and the plane has the row.
#[inline(always)]
unsafe fn of_columns<T: Storage>(
    x: Global<T>,
    g: &TapSumsGeometry,
    row: u32,
    lane: u32,
) -> [f32; MAX_AXIS_TAPS] {
    let width = g.input[2];
    let mut sums = [0.0; MAX_AXIS_TAPS];
    let mut w = lane;
    while w < width {
        opaque::not_unrolled();
        let mut values = [0.0; IN_FLIGHT];
        let column = |i: usize| w + i as u32 * WARP_THREADS;
        unroll!(4, |i| {
            if column(i) < width {
                values[i] = x.load((row * width + column(i)) as usize).to_f32();
            }
        });
        unroll!(8, |tap| {
            if (tap as u32) < g.taps[2] {
                unroll!(4, |i| {
                    if meets(g.positions[2][tap], g.steps[2], column(i)) {
                        sums[tap] += values[i];
                    }
                });
            }
        });
        w += IN_FLIGHT as u32 * WARP_THREADS;
    }
    unroll!(8, |tap| {
        if (tap as u32) < g.taps[2] {
            sums[tap] = sum_of_lanes::<WARP_THREADS>(sums[tap]);
        }
    });
    sums
}

/// Whether a position meets a tap.
#[inline(always)]
unsafe fn meets(positions: Positions, step: u32, at: u32) -> bool {
    let is_between = at >= positions.first && at < positions.end;
    is_between && (step == 1 || div_rem(at - positions.first, step).1 == 0)
}

/// Returns element `at` through comparisons: an array with a variable index would be copied to local memory.
#[inline(always)]
fn nth(positions: &[Positions; MAX_AXIS_TAPS], at: u32) -> Positions {
    let mut found = Positions { first: 0, end: 0 };
    unroll!(8, |i| {
        if at == i as u32 {
            found = positions[i];
        }
    });
    found
}

/// A warp computes a sum, or a mean, of a sample's results in an output channel.
///
/// *Launch*: `g.shape()`. *Mapping*: each lane multiplies every 32nd pair of a filter element and a sum.
/// *Barriers*: none. *Traffic*: filters are read once for each sample, from cache after the first time.
///
/// # Safety
/// `sums` has `g.sample_sums()` elements for each sample, `weight` one for each pair of channels of a group
/// and each tap, `bias` one for each output channel if `g.bias` is present, and `y` one for each sample and
/// output channel.
#[kernel(instances(T: [f32]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn conv_mean<T: Storage>(
    sums: *const f32,
    weight: *const T,
    bias: *const T,
    y: *mut T,
    g: &ConvMeanGeometry,
) {
    let thread = thread::thread_idx_x();
    let channels = g.channels();
    let output = thread::block_idx_x() as u64 * WARPS as u64 + (thread / WARP_THREADS) as u64;
    if output >= g.samples * channels as u64 {
        return;
    }
    let (sample, channel) = div_rem_u64(output, channels as u64);
    let channel = channel as u32;
    let (group, of_group) = div_rem(channel, g.group_k);
    let of_filter = g.group_c * g.taps;
    let elements = channels as usize * of_filter as usize;
    let weight = Global::new(weight, elements);
    let sums = Global::new(sums, (g.samples * g.sample_sums()) as usize);
    let first_sum = sample * g.sample_sums() + group as u64 * of_filter as u64;
    let lane = thread % WARP_THREADS;
    let mut sum = 0.0;
    let mut i = lane;
    while i < of_filter {
        let element = if g.is_transposed.is_present() {
            let (c, tap) = div_rem(i, g.taps);
            let pair = (group * g.group_c + c) as usize * g.group_k as usize + of_group as usize;
            pair * g.taps as usize + tap as usize
        } else {
            channel as usize * of_filter as usize + i as usize
        };
        let of_tap = sums.load((first_sum + i as u64) as usize);
        sum += weight.load_readonly(element).to_f32() * of_tap;
        i += WARP_THREADS;
    }
    let sum = sum_of_lanes::<WARP_THREADS>(sum);
    if lane == 0 {
        let mut result = sum * g.factor + g.offset;
        if g.bias.is_present() {
            let bias = Global::new(bias, channels as usize).load_readonly(channel as usize);
            result += bias.to_f32() * g.bias_factor;
        }
        GlobalMut::new(y, (g.samples * channels as u64) as usize)
            .store(output as usize, T::from_f32(result));
    }
}
