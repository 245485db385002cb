//! Pools: the maximum or the average of each window of images and volumes. The average of a whole plane is a
//! row reduction instead.
//!
//! NaN in a window gives NaN, and so do infinities of both signs in an average. Padding is never loaded.
//! Averages are f32 sums in a fixed order: over the columns of a row, the rows of a slice, and the slices.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, thread};
use launch_config::pool::{
    BLOCK_OUTPUTS, BLOCK_THREADS, OUTPUTS_PER_THREAD, WINDOW_MIN_BLOCKS, WindowGeometry,
    WindowResult,
};

use crate::parts::index::NearSegments;
use crate::parts::unroll::unroll;

pub mod nhwc;
pub mod overlapping;

/// One window of a thread.
#[derive(Clone, Copy)]
struct Window {
    /// Index of the plane's first element.
    plane: usize,
    /// Depth, row and column of the window's first element. A position in front of the input is negative and
    /// wraps around.
    first: [u32; 3],
}

/// A block computes `BLOCK_OUTPUTS` consecutive outputs.
///
/// *Launch*: `g.shape()`. *Mapping*: four windows a thread, a block's width apart, whose elements are loaded
/// side by side. *Barriers*: none. *Traffic*: each element of a window is read once from cache, each element
/// of the input about once from memory; each output is written once.
///
/// # Safety
/// `x` has `g.planes` planes of the extents `g.input`, `y` as many of `g.output`; the two do not
/// overlap. The extents are positive, planes have less than 2^31 elements, and `g` is planned.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = WINDOW_MIN_BLOCKS)]
pub unsafe fn pool<T: Storage>(x: *const T, y: *mut T, g: &WindowGeometry) {
    let plane_elements = g.plane_elements() as usize;
    let outputs = g.planes * g.plane_outputs();
    let y = GlobalMut::new(y, outputs as usize);
    let start = thread::block_idx_x() as u64 * BLOCK_OUTPUTS as u64;
    let span = (outputs - start).min(BLOCK_OUTPUTS as u64) as u32;
    let segments = NearSegments::from(start, g.plane_outputs(), &g.near);
    let thread = thread::thread_idx_x();
    let reduction = Reduction::of(g);

    // Depth, row and column of output `local` of the block, and its plane after the block's first one.
    let locate = |local: u32| {
        let (plane, position) = segments.position(local);
        // A plane has less than 2^31 outputs.
        let (z, rest) = g.slice.div_rem(position as u32, math::high_word);
        let (p, q) = g.columns.div_rem(rest, math::high_word);
        (plane, [z, p, q])
    };
    // Threads past the end recompute the last output, and do not store it.
    let nth = |o: u32| (thread + o * BLOCK_THREADS).min(span - 1);
    let mut windows = [Window {
        plane: 0,
        first: [0; 3],
    }; OUTPUTS_PER_THREAD];
    unroll!(4, |o| {
        let (plane, at) = locate(nth(o as u32));
        windows[o] = Window {
            plane: (segments.first as usize + plane as usize) * plane_elements,
            first: [
                (at[0] * g.stride[0]).wrapping_sub(g.padding[0]),
                (at[1] * g.stride[1]).wrapping_sub(g.padding[1]),
                (at[2] * g.stride[2]).wrapping_sub(g.padding[2]),
            ],
        };
    });

    let mut results = match has_whole_windows(g) {
        true => whole_windows(x, g, &windows, reduction),
        false => bounded_windows(x, g, &windows, reduction),
    };
    let mut o = 0;
    while o < OUTPUTS_PER_THREAD as u32 {
        let local = thread + o * BLOCK_THREADS;
        let result = results[0];
        results = [results[1], results[2], results[3], result];
        if local < span {
            let result = reduction.result(result, || divisor(g, locate(local).1));
            y.store(start as usize + local as usize, T::from_f32(result));
        }
        o += 1;
    }
}

/// Whether no window has elements outside of the input.
#[inline(always)]
fn has_whole_windows(g: &WindowGeometry) -> bool {
    let mut are_whole = true;
    unroll!(3, |axis| {
        let last = (g.output[axis] - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis];
        are_whole &= g.padding[axis] == 0 && last < g.input[axis];
    });
    are_whole
}

/// Reduces windows without elements in the padding.
///
/// # Safety
/// As for [`fn@pool`].
#[inline(always)]
unsafe fn whole_windows<T: Storage>(
    x: *const T,
    g: &WindowGeometry,
    windows: &[Window; OUTPUTS_PER_THREAD],
    reduction: Reduction,
) -> [f32; OUTPUTS_PER_THREAD] {
    let none = reduction.none();
    let [_, height, width] = g.input.map(|extent| extent as usize);
    let [d_step, h_step, w_step] = g.dilation.map(|step| step as usize * size_of::<T>());
    // Steps from behind a row of a window to its next row, and from behind a slice to the next one.
    let to_row = (h_step * width).wrapping_sub(w_step * g.kernel[2] as usize);
    let to_slice = (d_step * height * width).wrapping_sub(h_step * width * g.kernel[1] as usize);
    let mut at = [x; OUTPUTS_PER_THREAD];
    unroll!(4, |o| {
        let [d, h, w] = windows[o].first;
        let in_plane = (d * g.input[1] + h) * g.input[2] + w;
        at[o] = x.wrapping_add(windows[o].plane + in_plane as usize);
    });
    let mut results = [none; OUTPUTS_PER_THREAD];
    let mut t = 0;
    while t < g.kernel[0] {
        let mut of_slice = [none; OUTPUTS_PER_THREAD];
        let mut r = 0;
        while r < g.kernel[1] {
            let mut of_row = [none; OUTPUTS_PER_THREAD];
            let mut s = 0;
            while s < g.kernel[2] {
                let mut values = [none; OUTPUTS_PER_THREAD];
                unroll!(4, |o| {
                    values[o] = Global::new(at[o], 1).load(0).to_f32();
                    at[o] = at[o].wrapping_byte_add(w_step);
                });
                unroll!(4, |o| {
                    of_row[o] = reduction.and(of_row[o], values[o]);
                });
                s += 1;
            }
            unroll!(4, |o| {
                of_slice[o] = reduction.and(of_slice[o], of_row[o]);
                at[o] = at[o].wrapping_byte_add(to_row);
            });
            r += 1;
        }
        unroll!(4, |o| {
            results[o] = reduction.and(results[o], of_slice[o]);
            at[o] = at[o].wrapping_byte_add(to_slice);
        });
        t += 1;
    }
    results
}

/// Reduces windows that may have elements in the padding: the first element of the plane is loaded instead,
/// and dropped.
///
/// # Safety
/// As for [`fn@pool`].
#[inline(always)]
unsafe fn bounded_windows<T: Storage>(
    x: *const T,
    g: &WindowGeometry,
    windows: &[Window; OUTPUTS_PER_THREAD],
    reduction: Reduction,
) -> [f32; OUTPUTS_PER_THREAD] {
    let x = Global::new(x, (g.planes * g.plane_elements()) as usize);
    let (none, and) = (reduction.none(), |a, b| reduction.and(a, b));
    let mut results = [none; OUTPUTS_PER_THREAD];
    let mut t = 0;
    while t < g.kernel[0] {
        let mut of_slice = [none; OUTPUTS_PER_THREAD];
        let mut r = 0;
        while r < g.kernel[1] {
            let mut of_row = [none; OUTPUTS_PER_THREAD];
            let mut s = 0;
            while s < g.kernel[2] {
                let mut values = [none; OUTPUTS_PER_THREAD];
                unroll!(4, |o| {
                    let [d, h, w] = windows[o].first;
                    let d = d.wrapping_add(t * g.dilation[0]);
                    let h = h.wrapping_add(r * g.dilation[1]);
                    let w = w.wrapping_add(s * g.dilation[2]);
                    let inside = d < g.input[0] && h < g.input[1] && w < g.input[2];
                    let in_plane = if inside {
                        (d * g.input[1] + h) * g.input[2] + w
                    } else {
                        0
                    };
                    let value = x.load(windows[o].plane + in_plane as usize).to_f32();
                    if inside {
                        values[o] = value;
                    }
                });
                unroll!(4, |o| {
                    of_row[o] = and(of_row[o], values[o]);
                });
                s += 1;
            }
            unroll!(4, |o| {
                of_slice[o] = and(of_slice[o], of_row[o]);
            });
            r += 1;
        }
        unroll!(4, |o| {
            results[o] = and(results[o], of_slice[o]);
        });
        t += 1;
    }
    results
}

/// The reduction of a window: a maximum or a sum.
#[derive(Clone, Copy)]
struct Reduction {
    is_maximum: bool,
}

impl Reduction {
    #[inline(always)]
    fn of(g: &WindowGeometry) -> Self {
        Self {
            is_maximum: g.result == WindowResult::Maximum,
        }
    }

    /// The identity of the reduction, which also stands for elements in the padding.
    #[inline(always)]
    fn none(self) -> f32 {
        if self.is_maximum {
            f32::NEG_INFINITY
        } else {
            0.0
        }
    }

    /// Combines two partial results.
    #[inline(always)]
    fn and(self, a: f32, b: f32) -> f32 {
        if self.is_maximum {
            math::max_nan(a, b)
        } else {
            a + b
        }
    }

    /// The pooled value: a maximum as it is, a sum divided by the divisor.
    #[inline(always)]
    fn result(self, reduced: f32, divisor: impl FnOnce() -> f32) -> f32 {
        if self.is_maximum {
            reduced
        } else {
            reduced / divisor()
        }
    }
}

/// The divisor of the average for an output's window.
#[inline(always)]
fn divisor(g: &WindowGeometry, output: [u32; 3]) -> f32 {
    if g.result == WindowResult::Divided {
        return g.divisor;
    }
    let is_padded = g.result == WindowResult::AverageOfPadded;
    let mut count = 1;
    unroll!(3, |axis| {
        let padding = g.padding[axis];
        // Positions on the padded axis fit signed 32 bits.
        let start = output[axis] * g.stride[axis];
        let end = start + g.kernel[axis];
        let (first, last) = if is_padded {
            (0, g.input[axis] + 2 * padding)
        } else {
            (padding, padding + g.input[axis])
        };
        count *= end.min(last) - start.max(first);
    });
    count as f32
}
