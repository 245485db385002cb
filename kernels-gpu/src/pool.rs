//! Pools: the maximum or the average of each window of images and volumes. The average of a whole plane is a
//! row reduction instead.
//!
//! NaN in a window gives NaN, and so do infinities of both signs in an average. Padding is never loaded.
//! Averages are f32 sums in a fixed order: over the columns of a row, the rows of a slice, and the slices.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::pool::{
    BLOCK_OUTPUTS, BLOCK_THREADS, OUTPUTS_PER_THREAD, WINDOW_MIN_BLOCKS, WindowGeometry,
    WindowResult,
};

use crate::parts::index::NearSegments;
use crate::parts::unroll::unroll;

pub mod nhwc;
pub mod overlapping;
pub mod rows;

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
/// side by side. If windows are wholly in the input, their two to four adjacent columns are loaded together:
/// two or four as a vector where all rows of windows are aligned for it. *Barriers*: none. *Traffic*: each
/// element of a window is read once from cache, each element of the input about once from memory; each
/// output is written once.
///
/// # Safety
/// `x` has `g.planes` planes of the extents `g.input`, `y` as many of `g.output`; the two do not
/// overlap, and `x` is 16-byte aligned. The extents are positive, planes have less than 2^31 elements, and
/// `g` is planned.
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

    let are_whole = has_whole_windows(g);
    let mut results = match are_whole {
        true if reduction.is_maximum => of_whole(x, g, &windows, Reduction { is_maximum: true }),
        true => of_whole(x, g, &windows, Reduction { is_maximum: false }),
        false => {
            let elements = Bounded {
                x: Global::new(x, (g.planes * g.plane_elements()) as usize),
                g,
                windows: &windows,
                behind: [0; 3],
                none: reduction.none(),
            };
            reduced(g.kernel, elements, reduction)
        }
    };
    let mut o = 0;
    while o < OUTPUTS_PER_THREAD as u32 {
        let local = thread + o * BLOCK_THREADS;
        let result = results[0];
        results = [results[1], results[2], results[3], result];
        if local < span {
            let result = reduction.result(result, || {
                // All whole windows have the divisor of the first one.
                let at = if are_whole { [0; 3] } else { locate(local).1 };
                divisor(g, at)
            });
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

/// The elements of a thread's windows, one of each window at a time.
trait Elements {
    /// Loads the present element of window `o`; the reduction's identity if it is in the padding.
    unsafe fn load(&self, o: usize) -> f32;

    /// Moves to the next column; on axis 1, from behind a row to the window's next row; on axis 0, from
    /// behind a slice to its next slice.
    fn advance(&mut self, axis: usize);
}

/// Elements of windows that are wholly in the input.
struct Whole<T> {
    at: [*const T; OUTPUTS_PER_THREAD],
    /// Bytes that the pointers move on each axis.
    steps: [usize; 3],
}

impl<T: Storage> Whole<T> {
    /// The first elements of windows. Pointers move by `columns` columns in each row.
    #[inline(always)]
    fn of(
        x: *const T,
        g: &WindowGeometry,
        windows: &[Window; OUTPUTS_PER_THREAD],
        columns: u32,
    ) -> Self {
        let [_, height, width] = g.input.map(|extent| extent as usize);
        let [d_step, h_step, w_step] = g.dilation.map(|step| step as usize * size_of::<T>());
        let to_row = (h_step * width).wrapping_sub(w_step * columns as usize);
        let to_slice =
            (d_step * height * width).wrapping_sub(h_step * width * g.kernel[1] as usize);
        let mut at = [x; OUTPUTS_PER_THREAD];
        unroll!(4, |o| {
            let [d, h, w] = windows[o].first;
            let in_plane = (d * g.input[1] + h) * g.input[2] + w;
            at[o] = x.wrapping_add(windows[o].plane + in_plane as usize);
        });
        Self {
            at,
            steps: [to_slice, to_row, w_step],
        }
    }
}

impl<T: Storage> Elements for Whole<T> {
    #[inline(always)]
    unsafe fn load(&self, o: usize) -> f32 {
        Global::new(self.at[o], 1).load(0).to_f32()
    }

    #[inline(always)]
    fn advance(&mut self, axis: usize) {
        unroll!(4, |o| {
            self.at[o] = self.at[o].wrapping_byte_add(self.steps[axis]);
        });
    }
}

/// Elements of windows that may reach into the padding: the first element of the plane is loaded instead,
/// and dropped.
struct Bounded<'a, T> {
    x: Global<T>,
    g: &'a WindowGeometry,
    windows: &'a [Window; OUTPUTS_PER_THREAD],
    /// The distance from the first element, on each axis.
    behind: [u32; 3],
    none: f32,
}

impl<T: Storage> Elements for Bounded<'_, T> {
    #[inline(always)]
    unsafe fn load(&self, o: usize) -> f32 {
        let (first, behind, input) = (self.windows[o].first, self.behind, self.g.input);
        let [d, h, w] = [0, 1, 2].map(|axis| first[axis].wrapping_add(behind[axis]));
        let inside = d < input[0] && h < input[1] && w < input[2];
        let in_plane = if inside {
            (d * input[1] + h) * input[2] + w
        } else {
            0
        };
        let value = self.x.load(self.windows[o].plane + in_plane as usize);
        if inside { value.to_f32() } else { self.none }
    }

    #[inline(always)]
    fn advance(&mut self, axis: usize) {
        if axis < 2 {
            self.behind[axis + 1] = 0;
        }
        self.behind[axis] += self.g.dilation[axis];
    }
}

/// Reduces a thread's windows, which are wholly in the input.
///
/// # Safety
/// As for [`fn@pool`].
#[inline(always)]
unsafe fn of_whole<T: Storage>(
    x: *const T,
    g: &WindowGeometry,
    windows: &[Window; OUTPUTS_PER_THREAD],
    reduction: Reduction,
) -> [f32; OUTPUTS_PER_THREAD] {
    // Whether each row of a window starts at a multiple of this number of columns.
    let are_vectors =
        |columns| g.input[2].is_multiple_of(columns) && g.stride[2].is_multiple_of(columns);
    let rows = |columns| Whole::of(x, g, windows, columns);
    let adjacent = if g.dilation[2] == 1 { g.kernel[2] } else { 0 };
    match adjacent {
        2 if are_vectors(2) => of_rows(g.kernel, rows(0), reduction, |at| {
            Global::new(at, 2).load_vec::<2>(0)
        }),
        2 => of_rows(g.kernel, rows(0), reduction, |at| elements::<T, 2>(at)),
        3 => of_rows(g.kernel, rows(0), reduction, |at| elements::<T, 3>(at)),
        4 if are_vectors(4) => of_rows(g.kernel, rows(0), reduction, |at| {
            Global::new(at, 4).load_vec::<4>(0)
        }),
        _ => reduced(g.kernel, rows(g.kernel[2]), reduction),
    }
}

/// The `COLUMNS` elements at `at`, loaded one by one.
///
/// # Safety
/// The elements exist.
#[inline(always)]
unsafe fn elements<T: Storage, const COLUMNS: usize>(at: *const T) -> [T; COLUMNS] {
    let x = Global::new(at, COLUMNS);
    let mut values = [T::from_f32(0.0); COLUMNS];
    unroll!(3, |s| {
        if s < COLUMNS {
            values[s] = x.load(s);
        }
    });
    values
}

/// [`reduced`] for windows of `COLUMNS` adjacent columns, which `load` loads from a row of a window.
/// `windows` move by no columns in a row. The columns of a row of all windows are in flight together; two
/// columns, of two rows.
///
/// # Safety
/// As for [`fn@pool`].
#[inline(always)]
unsafe fn of_rows<T: Storage, const COLUMNS: usize>(
    kernel: [u32; 3],
    mut windows: Whole<T>,
    reduction: Reduction,
    load: impl Fn(*const T) -> [T; COLUMNS],
) -> [f32; OUTPUTS_PER_THREAD] {
    let none = [reduction.none(); OUTPUTS_PER_THREAD];
    let load_row = |windows: &mut Whole<T>| {
        let mut values = [[T::from_f32(0.0); COLUMNS]; OUTPUTS_PER_THREAD];
        unroll!(4, |o| {
            values[o] = load(windows.at[o]);
        });
        windows.advance(1);
        values
    };
    let and_row = |to: &mut [f32; OUTPUTS_PER_THREAD], row: [[T; COLUMNS]; OUTPUTS_PER_THREAD]| {
        unroll!(4, |o| {
            let mut of_row = reduction.none();
            unroll!(4, |s| {
                if s < COLUMNS {
                    of_row = reduction.and(of_row, row[o][s].to_f32());
                }
            });
            to[o] = reduction.and(to[o], of_row);
        });
    };
    let mut results = none;
    let mut t = 0;
    while t < kernel[0] {
        opaque::not_unrolled();
        let mut of_slice = none;
        let mut r = 0;
        if COLUMNS == 2 {
            while r + 1 < kernel[1] {
                opaque::not_unrolled();
                let rows = [load_row(&mut windows), load_row(&mut windows)];
                and_row(&mut of_slice, rows[0]);
                and_row(&mut of_slice, rows[1]);
                r += 2;
            }
        }
        while r < kernel[1] {
            opaque::not_unrolled();
            let row = load_row(&mut windows);
            and_row(&mut of_slice, row);
            r += 1;
        }
        windows.advance(0);
        unroll!(4, |o| {
            results[o] = reduction.and(results[o], of_slice[o]);
        });
        t += 1;
    }
    results
}

/// Reduces a thread's windows.
///
/// # Safety
/// As for [`fn@pool`].
#[inline(always)]
unsafe fn reduced(
    kernel: [u32; 3],
    mut elements: impl Elements,
    reduction: Reduction,
) -> [f32; OUTPUTS_PER_THREAD] {
    let none = [reduction.none(); OUTPUTS_PER_THREAD];
    let combine = |to: &mut [f32; OUTPUTS_PER_THREAD], values: [f32; OUTPUTS_PER_THREAD]| {
        unroll!(4, |o| {
            to[o] = reduction.and(to[o], values[o]);
        });
    };
    let mut results = none;
    let mut t = 0;
    while t < kernel[0] {
        let mut of_slice = none;
        let mut r = 0;
        while r < kernel[1] {
            let mut of_row = none;
            let mut s = 0;
            while s < kernel[2] {
                let mut values = none;
                unroll!(4, |o| {
                    values[o] = elements.load(o);
                });
                elements.advance(2);
                combine(&mut of_row, values);
                s += 1;
            }
            elements.advance(1);
            combine(&mut of_slice, of_row);
            r += 1;
        }
        elements.advance(0);
        combine(&mut results, of_slice);
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
