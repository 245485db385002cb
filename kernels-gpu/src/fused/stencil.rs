//! A depthwise convolution, on FMA, with what a norm and a pool want of it.
//!
//! # Idea
//! A convolution of one channel to a group has a few products for each value that it reads: tensor cores
//! would idle, memory should be what binds. So the input is read once, the output written once at
//! most, and there are few instructions beside the products:
//!
//! 1. Lanes are neighbouring columns, and each has up to [`ITEM_ROWS`] rows below one another: an *item* of the warp. For
//!    each tap a lane loads its rows' values, and the filter's value once for all of them. What
//!    neighbouring taps and rows load again comes from L1.
//! 2. Items that touch no padding, most of them, are computed without asking for it, and those that do only beside
//!    columns with one question a column. Padding is multiplied like an
//!    input of 0, so that it meets an infinite filter value as it does in PyTorch.
//! 3. Where windows lie side by side, of each only the value is written that pooling would take after the norm
//!    (`parts::extrema`).
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
//!     sum += bias
//!     moments += moments of the rows of `sum` that are in the output
//!     with a pool: largest = max of sign * sum, down the rows of a window in registers
//!                  largest = max over the window's columns, by shuffles
//!                  y[window] = sign * largest                  # sign = -1 where norm and scale reverse the order
//!     without one: y[row i][column] = sum[i]
//! moments of the block: lanes, warps, and by one barrier all of it
//! ```
//!
//! Sums are f32, FMA in the order of the taps. How items lie: `op_spec::launch::stencil`.
//!
//! # Barriers
//! All threads reach all barriers: one after the filter is in shared memory, one between the warps' moments
//! and their combination. Warps go through their items on their own.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::{self, Shared};
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread, warp};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::norm::COUNTED_ELEMENTS;
use op_spec::launch::stencil::{
    BLOCK_ITEMS, ITEM_ROWS, MAX_BLOCK_THREADS, MAX_WARPS, MIN_BLOCKS, StencilGeometry,
};

use crate::parts::extrema::is_reversed;
use crate::parts::index::div_rem;
use crate::parts::moments::{Moments, WARP_SLOT};
use crate::parts::unroll::unroll;

/// The rows of an item, as a length.
const ROWS: usize = ITEM_ROWS as usize;
const _: () = assert!(ROWS == 8);

shared_array! {
    /// The moments of each warp.
    static STENCIL_WARPS: [f32; (MAX_WARPS * WARP_SLOT) as usize];
}

/// The item of a warp, as a lane sees it.
struct Item {
    /// Slice, first row and column of the output. The column may be beyond the last.
    z: u32,
    p: u32,
    q: u32,
    /// Whether the lane has a column of the output.
    is_column: bool,
    /// Slice, row and column of the padded input that the first tap meets, less the padding: below zero, wrapped,
    /// in the padding.
    d: u32,
    h: u32,
    w: u32,
    /// Whether no lane meets padding in front of or behind slices and rows, and whether none does beside columns.
    rows_inside: bool,
    columns_inside: bool,
}

impl Item {
    /// Item `item` of a plane.
    #[inline(always)]
    unsafe fn of(g: &StencilGeometry, item: u32) -> Self {
        let conv = &g.conv;
        let lane = thread::thread_idx_x() % WARP_THREADS;
        let (rest, column) = div_rem(item, g.items_w);
        let (z, row) = div_rem(rest, g.items_h);
        let (p, first_q) = (row * g.item_rows, column * g.item_columns);
        let q = first_q + lane;
        let d = (z * conv.stride_d).wrapping_sub(conv.pad_d);
        let h = (p * conv.stride_h).wrapping_sub(conv.pad_h);
        let first_w = (first_q * conv.stride_w).wrapping_sub(conv.pad_w);
        // Beyond the first element of all lanes, the last one of any, along each axis. What is in front of the input
        // wrapped, and so is behind it, too.
        let reach = |steps: u32, stride: u32, taps: u32, dilation: u32| {
            let taps = (taps - 1).saturating_mul(dilation);
            steps.saturating_mul(stride).saturating_add(taps)
        };
        let inside = |first: u32, reach: u32, extent: u32| first.saturating_add(reach) < extent;
        Self {
            z,
            p,
            q,
            is_column: lane < g.item_columns && q < conv.q,
            d,
            h,
            w: q.wrapping_mul(conv.stride_w).wrapping_sub(conv.pad_w),
            rows_inside: inside(d, reach(0, 0, conv.t, conv.dilation_d), conv.d)
                && inside(
                    h,
                    reach(ITEM_ROWS - 1, conv.stride_h, conv.r, conv.dilation_h),
                    conv.h,
                ),
            columns_inside: inside(
                first_w,
                reach(WARP_THREADS - 1, conv.stride_w, conv.s, conv.dilation_w),
                conv.w,
            ),
        }
    }
}

/// The lane's sums for an item that touches no padding, but perhaps beside columns.
///
/// # Safety
/// The item is one of the plane `x`, with rows inside, and with columns inside if `COLUMNS_INSIDE`; `filter` has all
/// taps.
#[inline(always)]
unsafe fn convolve_inner<T: Storage, const COLUMNS_INSIDE: bool>(
    x: Global<T>,
    filter: Shared<f32>,
    g: &StencilGeometry,
    item: &Item,
) -> [f32; ROWS] {
    let conv = &g.conv;
    let step = conv.stride_h * conv.w;
    let mut sums = [0.0; ROWS];
    let (mut t, mut tap) = (0, 0);
    while t < conv.t {
        let slice = (item.d + t * conv.dilation_d) * conv.h;
        let mut r = 0;
        while r < conv.r {
            let row = (slice + item.h + r * conv.dilation_h) * conv.w;
            let mut s = 0;
            while s < conv.s {
                let w = item.w.wrapping_add(s * conv.dilation_w);
                let inside = COLUMNS_INSIDE || w < conv.w;
                // In the padding the first column is loaded, and not used.
                let at = row + if inside { w } else { 0 };
                let factor = filter.load(tap);
                unroll!(8, |i| {
                    let at = at + i as u32 * step;
                    let value = x.load_readonly(at as usize).to_f32();
                    let value = if inside { value } else { 0.0 };
                    sums[i] = math::fma(value, factor, sums[i]);
                });
                s += 1;
                tap += 1;
            }
            r += 1;
        }
        t += 1;
    }
    sums
}

/// The same for an item that may touch padding.
///
/// # Safety
/// `x` is the item's plane and has an element; `filter` has all taps.
#[inline(always)]
unsafe fn convolve_edge<T: Storage>(
    x: Global<T>,
    filter: Shared<f32>,
    g: &StencilGeometry,
    item: &Item,
) -> [f32; ROWS] {
    let conv = &g.conv;
    let mut sums = [0.0; ROWS];
    let (mut t, mut tap) = (0, 0);
    while t < conv.t {
        let d = item.d.wrapping_add(t * conv.dilation_d);
        let mut r = 0;
        while r < conv.r {
            let first = item.h.wrapping_add(r * conv.dilation_h);
            let mut s = 0;
            while s < conv.s {
                let w = item.w.wrapping_add(s * conv.dilation_w);
                let is_column = d < conv.d && w < conv.w;
                let factor = filter.load(tap);
                unroll!(8, |i| {
                    let h = first.wrapping_add((i as u32).wrapping_mul(conv.stride_h));
                    let inside = is_column && h < conv.h;
                    // In the padding the first element is loaded, and not used.
                    let at = if inside {
                        (d * conv.h + h) * conv.w + w
                    } else {
                        0
                    };
                    let value = x.load_readonly(at as usize).to_f32();
                    let value = if inside { value } else { 0.0 };
                    sums[i] = math::fma(value, factor, sums[i]);
                });
                s += 1;
                tap += 1;
            }
            r += 1;
        }
        t += 1;
    }
    sums
}

/// Writes the lane's first `rows` sums to the output plane `y`.
///
/// # Safety
/// Where `rows` is not 0 the lane has a column, and `rows` rows of it, from the item's first on, are in the output.
#[inline(always)]
unsafe fn write_rows<T: Storage>(
    y: GlobalMut<T>,
    g: &StencilGeometry,
    item: &Item,
    rows: u32,
    sums: &[f32; ROWS],
) {
    let conv = &g.conv;
    let first = (item.z * conv.p + item.p) * conv.q + item.q;
    unroll!(8, |i| {
        if (i as u32) < rows {
            let at = first + i as u32 * conv.q;
            y.store(at as usize, T::from_f32(sums[i]));
        }
    });
}

/// The window that a lane is at.
struct Window {
    /// Its row in the pooled output.
    p: u32,
    /// How many of its rows have been seen, and the largest of their values in this column.
    rows: u32,
    largest: f32,
}

impl Window {
    /// Starts with the next one.
    #[inline(always)]
    fn go_on(&mut self) {
        self.p = self.p.wrapping_add(1);
        self.rows = 0;
        self.largest = f32::NEG_INFINITY;
    }
}

/// Writes of each whole window of the item the value that will be the largest after norm and scale, of which `sign` says
/// whether they reverse the order.
///
/// # Safety
/// All lanes of the warp call it together; outputs are pooled.
#[inline(always)]
unsafe fn write_windows<T: Storage>(
    y: GlobalMut<T>,
    g: &StencilGeometry,
    item: &Item,
    sums: &[f32; ROWS],
    sign: f32,
) {
    let lane = thread::thread_idx_x() % WARP_THREADS;
    let (_, in_window) = div_rem(lane, g.pool_w);
    let (q, _) = div_rem(item.q, g.pool_w);
    let (p, _) = div_rem(item.p, g.pool_h);
    let writes = in_window == 0 && lane < g.item_columns && q < g.pooled_w;
    let mut window = Window {
        p: p.wrapping_sub(1),
        rows: 0,
        largest: 0.0,
    };
    window.go_on();
    unroll!(8, |i| {
        window.largest = math::max_nan(window.largest, sign * sums[i]);
        window.rows += 1;
        // The same in all lanes, and so is all that it depends on.
        if window.rows == g.pool_h {
            let of_column = window.largest;
            let mut column = 1;
            while column < g.pool_w {
                let (other, _) =
                    warp::warp_shuffle_down(warp::ALL_LANES, of_column, column, WARP_THREADS);
                window.largest = math::max_nan(window.largest, other);
                column += 1;
            }
            if writes && (i as u32) < g.item_rows && window.p < g.pooled_h {
                let at = (window.p * g.pooled_w + q) as usize;
                y.store(at, T::from_f32(sign * window.largest));
            }
            warp::sync_warp(warp::ALL_LANES);
            window.go_on();
        }
    });
}

/// A block convolves items of one channel of one sample, and takes moments and, where outputs are
/// pooled, extrema.
///
/// *Launch*: `g.shape()`. *Mapping*: items of a block to its warps in turn; columns to lanes.
/// *Barriers*: at the head of the module. *Traffic*: the input about once; each output, or the
/// extremum of each window, once.
///
/// # Safety
/// The tensors are as large as the geometry says; `y` and `moments` are apart from the others and
/// `moments` starts on 16 bytes; `bias` is read only where the geometry has one, `norm_weight` where it
/// is not null, both like `scale` with a value for each channel, and the latter two only where outputs are
/// pooled; planes have less than 2^31 elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn stencil<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    norm_weight: *const T,
    scale: *const T,
    y: *mut T,
    moments: *mut f32,
    g: &StencilGeometry,
) {
    let conv = &g.conv;
    let channels = conv.output_channels();
    let planes = conv.n as usize * channels as usize;
    let (plane, block_in_plane) = div_rem(thread::block_idx_x(), g.plane_blocks);
    let (_, channel) = div_rem(plane, channels);
    let channel = channel as usize;
    let (plane, block_in_plane) = (plane as usize, block_in_plane as usize);
    // With one filter to a channel, planes of input and output have the same number.
    let inputs = conv.input_pixels() as usize;
    let x = Global::new(x, planes * inputs).slice(plane * inputs, inputs);
    let outputs = if g.pool_h > 0 {
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
    let bias = if conv.has_bias != 0 {
        Global::new(bias, channels as usize)
            .load_readonly(channel)
            .to_f32()
    } else {
        0.0
    };
    let pooled = g.pool_h > 0;
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
        unroll!(8, |i| {
            sums[i] += bias;
        });
        warp::sync_warp(warp::ALL_LANES);
        let rows = if place.is_column {
            (conv.p - place.p).min(g.item_rows)
        } else {
            0
        };
        all = all.and(Moments::of_first(&sums, rows));
        if pooled {
            warp::sync_warp(warp::ALL_LANES);
            write_windows(y, g, &place, &sums, sign);
        } else {
            write_rows(y, g, &place, rows, &sums);
        }
        item += warps;
    }

    let all = all.of_block(STENCIL_WARPS.view(), warps);
    if thread::thread_idx_x() == 0 {
        let at = plane * g.plane_blocks as usize + block_in_plane;
        GlobalMut::new(moments, g.moment_elements() as usize)
            .store_vec(at * COUNTED_ELEMENTS, [all.count, all.mean, all.m2, 0.0]);
    }
}
