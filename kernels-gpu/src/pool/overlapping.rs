//! Pools with overlapping windows: the maximum or the average of each window of images and volumes.
//!
//! # Idea
//! Windows are reduced along one axis after the other. A *line* is the columns of a window in one row of the
//! input. A thread finds the columns inside the input once for all of its lines, so no element is tested
//! against bounds. Windows of neighbouring rows and slices share lines, which a thread keeps in shared
//! memory.
//!
//! ```text
//! for each row h of a slice d that windows of the tile have:   # 8 side by side
//!     line[d][h] = x[d][h][w0] and x[d][h][w0 + dilation] and ..
//! for each slice d, and each row p of the tile:
//!     line[d][p] = line[d][h of p] and line[d][next h of p] and ..      # in place
//! for each slice z and each row p of the tile:
//!     y[z][p] = line[d of z][p] and line[next d of z][p] and ..
//! ```
//!
//! Results are bit-identical to those of [`fn@super::pool`]: averages are summed in the same order. Padding
//! is never loaded.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared;
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::overlapping::{BLOCK_THREADS, MIN_BLOCKS, OverlappingGeometry, SIDE_BY_SIDE};
use launch_config::pool::WindowGeometry;

use super::{Reduction, divisor};
use crate::parts::index::{NearSegments, div_rem};
use crate::parts::unroll::unroll;

/// A thread computes the maxima of a tile of windows.
///
/// *Launch*: `g.shape()`. *Mapping*: neighbouring threads have neighbouring columns. *Barriers*: none.
/// *Traffic*: each element is read once for each window of its row and for each tile, from cache after the
/// first time; each output is written once.
///
/// # Safety
/// `x` has `g.windows.planes` planes of the extents `g.windows.input`, `y` as many of `g.windows.output`, and
/// they do not overlap. The extents are positive, planes of `y` and padded rows of `x` have less than 2^31
/// elements, and `g` describes maxima.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn max_pool_overlapping<T: Storage>(x: *const T, y: *mut T, g: &OverlappingGeometry) {
    reduce_tile(x, y, g, Reduction { is_maximum: true });
}

/// [`fn@max_pool_overlapping`] for averages.
///
/// *Launch*, *Mapping*, *Barriers*, *Traffic*: as for [`fn@max_pool_overlapping`].
///
/// # Safety
/// As for [`fn@max_pool_overlapping`], except that `g` describes averages.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn avg_pool_overlapping<T: Storage>(x: *const T, y: *mut T, g: &OverlappingGeometry) {
    reduce_tile(x, y, g, Reduction { is_maximum: false });
}

/// Reduces the windows of the thread's tile.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn reduce_tile<T: Storage>(
    x: *const T,
    y: *mut T,
    g: &OverlappingGeometry,
    reduction: Reduction,
) {
    let of = &g.windows;
    let thread = thread::thread_idx_x();
    let start = thread::block_idx_x() as u64 * BLOCK_THREADS as u64;
    if start + thread as u64 >= g.tiles() {
        return;
    }
    let plane_elements = of.plane_elements() as usize;
    let x = Global::new(x, of.planes as usize * plane_elements);
    let y = GlobalMut::new(y, (of.planes * of.plane_outputs()) as usize);
    let segments = NearSegments::from(start, g.plane_tiles, &g.near);
    let (plane, position) = segments.position(thread);
    let plane = segments.first as usize + plane as usize;
    // A plane has less than 2^31 outputs, and no more tiles than outputs.
    let (z, rest) = g.slice.div_rem(position as u32, math::high_word);
    let (p, q) = g.columns.div_rem(rest, math::high_word);
    let [z, p] = [z * g.tile[0], p * g.tile[1]];
    let input = |axis: usize, at: u32| (at * of.stride[axis]).wrapping_sub(of.padding[axis]);
    let [d, h, w] = [input(0, z), input(1, p), input(2, q)];
    let lines = Lines {
        x: x.slice(plane * plane_elements, plane_elements),
        g: of,
        first: w,
        taps: taps_inside(of, w),
        reduction,
    };
    // Each thread's lines are a column of shared memory, so threads access neighbouring banks.
    let held = shared::dynamic::<f32>(0, g.lines[0] * g.lines[1] * BLOCK_THREADS);
    let place = |slice: u32, row: u32| (slice * g.lines[1] + row) * BLOCK_THREADS + thread;
    let and = |a, b| reduction.and(a, b);
    let mut slice = 0;
    while slice < g.lines[0] {
        let d = d.wrapping_add(slice * g.step[0]);
        let mut row = 0;
        while row < g.lines[1] {
            let some = lines.reduced(d, h.wrapping_add(row * g.step[1]), g.step[1]);
            unroll!(8, |i| {
                if row + (i as u32) < g.lines[1] {
                    held.store(place(slice, row + i as u32), some[i]);
                }
            });
            row += SIDE_BY_SIDE;
        }
        slice += 1;
    }

    // Distances in lines from one output to the next, and from one tap of a window to the next.
    let steps = |axis: usize| {
        let (of_output, _) = div_rem(of.stride[axis], g.step[axis]);
        let (of_tap, _) = div_rem(of.dilation[axis], g.step[axis]);
        [of_output, of_tap]
    };
    let [row_step, tap_step] = steps(1);
    slice = 0;
    while slice < g.lines[0] {
        let mut row = 0;
        while row < g.tile[1] {
            // Rows past the last one repeat it.
            let nth = |i: usize| (row + i as u32).min(g.tile[1] - 1);
            let mut results = [reduction.none(); 4];
            let mut r = 0;
            while r < of.kernel[1] {
                opaque::not_unrolled();
                unroll!(4, |i| {
                    let line = nth(i) * row_step + r * tap_step;
                    results[i] = and(results[i], held.load(place(slice, line)));
                });
                r += 1;
            }
            // In place: no window of a later row uses these lines.
            unroll!(4, |i| {
                held.store(place(slice, nth(i)), results[i]);
            });
            row += 4;
        }
        slice += 1;
    }
    let [slice_step, tap_step] = steps(0);
    slice = 0;
    while slice < g.tile[0].min(of.output[0] - z) {
        let mut row = 0;
        while row < g.tile[1].min(of.output[1] - p) {
            let mut result = reduction.none();
            let mut t = 0;
            while t < of.kernel[0] {
                opaque::not_unrolled();
                let line = place(slice * slice_step + t * tap_step, row);
                result = and(result, held.load(line));
                t += 1;
            }
            let [z, p] = [z + slice, p + row];
            let result = reduction.result(result, || divisor(of, [z, p, q]));
            let of_slice = plane * of.output[0] as usize + z as usize;
            let of_row = of_slice * of.output[1] as usize + p as usize;
            y.store(
                of_row * of.output[2] as usize + q as usize,
                T::from_f32(result),
            );
            row += 1;
        }
        slice += 1;
    }
}

/// The lines of a thread: the columns of its windows in one plane.
struct Lines<'a, T> {
    /// The plane.
    x: Global<T>,
    g: &'a WindowGeometry,
    /// The first column of the windows; a negative one, in the padding, wraps around.
    first: u32,
    /// Range of the row's taps that are in the input: start and end.
    taps: [u32; 2],
    reduction: Reduction,
}

impl<T: Storage> Lines<'_, T> {
    /// Reduces the lines of rows `h`, `h + step` and so on of slice `d`. Lines of rows and slices in the
    /// padding are the reduction's identity.
    ///
    /// # Safety
    /// The plane has the extents of the geometry.
    #[inline(always)]
    unsafe fn reduced(&self, d: u32, h: u32, step: u32) -> [f32; SIDE_BY_SIDE as usize] {
        let g = self.g;
        let [from, to] = self.taps;
        let none = self.reduction.none();
        let mut at = [0; SIDE_BY_SIDE as usize];
        let mut is_inside = [false; SIDE_BY_SIDE as usize];
        let column = self.first.wrapping_add(from * g.dilation[2]) as usize;
        unroll!(8, |i| {
            let h = h.wrapping_add(i as u32 * step);
            is_inside[i] = d < g.input[0] && h < g.input[1];
            // For a row in the padding, another row is loaded and dropped.
            let row = if is_inside[i] { d * g.input[1] + h } else { 0 };
            at[i] = row as usize * g.input[2] as usize + column;
        });
        let mut lines = [none; SIDE_BY_SIDE as usize];
        let mut tap = from;
        while tap < to {
            opaque::not_unrolled();
            let mut values = lines;
            unroll!(8, |i| {
                values[i] = self.x.load(at[i]).to_f32();
                at[i] += g.dilation[2] as usize;
            });
            unroll!(8, |i| {
                lines[i] = self.reduction.and(lines[i], values[i]);
            });
            tap += 1;
        }
        unroll!(8, |i| {
            if !is_inside[i] {
                lines[i] = none;
            }
        });
        lines
    }
}

/// Returns the range (start, end) of a window's taps along a row that are in the input. The window starts at
/// column `first`, which wraps around if negative.
///
/// # Safety
/// The padded row has less than 2^31 elements, and the dilation is above 0.
#[inline(always)]
unsafe fn taps_inside(g: &WindowGeometry, first: u32) -> [u32; 2] {
    let (taps, step, columns) = (g.kernel[2], g.dilation[2], g.input[2]);
    let last = first.wrapping_add((taps - 1) * step);
    // Negative columns compare as large unsigned numbers.
    if first < columns && last < columns {
        return [0, taps];
    }
    let up = |distance: i32| {
        if distance <= 0 {
            return 0;
        }
        div_rem(distance as u32 + step - 1, step).0.min(taps)
    };
    [
        up((first as i32).wrapping_neg()),
        up(columns.wrapping_sub(first) as i32),
    ]
}
