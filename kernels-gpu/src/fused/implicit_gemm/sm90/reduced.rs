//! The store of a warp's results where windows of pixels, and neighbouring filters, are reduced to one
//! result.
//!
//! The pixels of a window are reduced in registers (`reduced_pixels`). The reduced values go to rows in
//! shared memory, as f32: a row for each filter, windows side by side. From there each lane takes windows of
//! one set of filters after another.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, math, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::WARP_FILTERS;
use launch_config::implicit_gemm::{REDUCED_PIXELS, ReducedResults, ResultReduction};

use super::super::format::Format;
use super::super::results::is_inside;
use super::super::tables::from_word;
use super::results::Results;
use super::shared_rows::Rows;
use super::tile_epilogue::Reduced;
use crate::parts::unroll::unroll;

/// The binary logarithm of the rows of a large set of filters, which a lane loads at the same time. Sets of
/// twice as many filters have one row for every two filters.
pub(super) const LOG_ROWS_OF_SET: u32 = 3;

/// The number of smaller sets of filters from which a lane loads at the same time.
const SETS: usize = 4;

/// The binary logarithm of the pixels of a staged tile.
const LOG_PIXELS: u32 = REDUCED_PIXELS.trailing_zeros();

/// A window of a staged tile, and its place in the output.
pub(super) struct Window {
    /// The window's first filter, among those of the warp.
    pub(super) filter: u32,
    /// The window's index among those of the filter.
    in_filter: u32,
    /// Coordinates of the first pixel in the convolution's output.
    pub(super) first: [u32; 3],
    /// The element of the output.
    pub(super) to: usize,
}

/// Whether values are added. Recomputed each time; a kept flag would take a register during the mainloop.
#[inline(always)]
pub(super) fn is_sum(reduced: &ReducedResults) -> bool {
    opaque::to_compiler(reduced.operation.code()) == ResultReduction::SUM.code()
}

/// Combines two values of a window.
#[inline(always)]
pub(super) fn combined(is_sum: bool, a: f32, b: f32) -> f32 {
    if is_sum { a + b } else { math::max_nan(a, b) }
}

/// Returns the factor that turns the combined values of a window into its result.
#[inline(always)]
pub(super) fn factor_of(reduced: &ReducedResults) -> f32 {
    if is_sum(reduced) {
        1.0 / reduced.divisor
    } else {
        reduced.sign
    }
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Reduced> {
    /// Returns the reduction. Its logarithms are recomputed each time: kept values that depend on them alone
    /// would take registers during the mainloop.
    #[inline(always)]
    pub(super) fn reduced(&self) -> Option<ReducedResults> {
        self.output.reduced.map(|reduced| ReducedResults {
            log_filters: opaque::to_compiler(reduced.log_filters),
            log_rows: opaque::to_compiler(reduced.log_rows),
            log_columns: opaque::to_compiler(reduced.log_columns),
            height: opaque::to_compiler(reduced.height),
            width: opaque::to_compiler(reduced.width),
            ..reduced
        })
    }

    /// The rows in shared memory.
    #[inline(always)]
    pub(super) fn window_rows(&self) -> Rows<f32> {
        Rows(self.rows.0.cast())
    }

    /// Writes the windows of the staged tile whose first pixel is `first`.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier that follows the stores of the rows.
    #[inline(always)]
    pub(super) unsafe fn write_windows(&self, first: u32) {
        let Some(reduced) = self.reduced() else {
            return;
        };
        // Lanes have windows side by side, of one set of filters or of several. Each keeps its window and
        // takes one set after another, so that only addresses change.
        let windows = REDUCED_PIXELS >> (reduced.log_rows + reduced.log_columns);
        let mut number = opaque::to_compiler(self.lane);
        loop {
            opaque::not_unrolled();
            if let Some(window) = self.window_of(&reduced, first, number) {
                if is_sum(&reduced) {
                    self.write_sets(&reduced, &window, |a, b| a + b);
                } else {
                    self.write_sets(&reduced, &window, math::max_nan);
                }
            }
            number = opaque::to_compiler(number + WARP_THREADS);
            if number >= windows {
                break;
            }
        }
    }

    /// Writes the results of a window for all sets of filters that the lane has, from the window's set on.
    #[inline(always)]
    unsafe fn write_sets(
        &self,
        reduced: &ReducedResults,
        window: &Window,
        combine: impl Fn(f32, f32) -> f32,
    ) {
        let rows = self.window_rows().0;
        let row = |filter: u32| filter * Rows::<f32>::PITCH + window.in_filter;
        // Filters from one of the lane's sets to the next.
        let log_windows = LOG_PIXELS - reduced.log_rows - reduced.log_columns;
        let step = (WARP_THREADS >> log_windows).max(1) << reduced.log_filters;
        let plane = (reduced.height * reduced.width) as usize * self.g.conv.z as usize;
        let next = plane * (step >> reduced.log_filters) as usize;
        let y = self.reduced_output(reduced);
        let factor = factor_of(reduced);
        let (mut filter, mut to) = (window.filter, window.to);
        while filter < self.filters {
            opaque::not_unrolled();
            if reduced.log_filters >= LOG_ROWS_OF_SET {
                let mut values = [0.0; 1 << LOG_ROWS_OF_SET];
                unroll!(8, |i| {
                    values[i] = rows.load(row(filter) + i as u32 * Rows::<f32>::PITCH);
                });
                unroll!(4, |i| {
                    values[i] = combine(values[i], values[i + 4]);
                });
                let [a, b, c, d, ..] = values;
                let value = combine(combine(a, c), combine(b, d));
                y.store(to, F::Stored::from_f32(value * factor));
                to += next;
                filter = opaque::to_compiler(filter + step);
                continue;
            }
            let mut values = [reduced.neutral; SETS];
            let mut of_set = filter;
            while of_set < filter + (1 << reduced.log_filters) {
                opaque::not_unrolled();
                let mut loaded = [reduced.neutral; SETS];
                unroll!(4, |i| {
                    // Rows of filters beyond the last one are not loaded.
                    let behind = i as u32 * step;
                    if of_set + behind < self.filters {
                        loaded[i] = rows.load(row(of_set) + behind * Rows::<f32>::PITCH);
                    }
                });
                unroll!(4, |i| {
                    values[i] = combine(values[i], loaded[i]);
                });
                of_set = opaque::to_compiler(of_set + 1);
            }
            let results = values.map(|value| F::Stored::from_f32(value * factor));
            unroll!(4, |i| {
                if filter + i as u32 * step < self.filters {
                    y.store(to + i * next, results[i]);
                }
            });
            to += SETS * next;
            filter = opaque::to_compiler(filter + SETS as u32 * step);
        }
    }

    /// Returns the filters, rows and columns of a window that exist in the output.
    #[inline(always)]
    pub(super) fn extents(&self, reduced: &ReducedResults, window: &Window) -> [u32; 3] {
        let [_, p, q] = window.first;
        let conv = &self.g.conv;
        [
            (self.filters - window.filter).min(1 << reduced.log_filters),
            (conv.p - p).min(1 << reduced.log_rows),
            (conv.q - q).min(1 << reduced.log_columns),
        ]
    }

    /// Returns the number of windows of a staged tile, over all filters of a warp.
    #[inline(always)]
    pub(super) fn windows(&self, reduced: &ReducedResults) -> u32 {
        let log = reduced.log_filters + reduced.log_rows + reduced.log_columns;
        (WARP_FILTERS * REDUCED_PIXELS) >> log
    }

    /// Returns window `number` of the staged tile whose first pixel is `first`; `None` if it is not written.
    #[inline(always)]
    pub(super) unsafe fn window_of(
        &self,
        reduced: &ReducedResults,
        first: u32,
        number: u32,
    ) -> Option<Window> {
        let (g, conv) = (&self.g, &self.g.conv);
        let &ReducedResults {
            log_filters,
            log_rows,
            log_columns,
            height,
            width,
            ..
        } = reduced;
        // All are powers of two: a pixel row of all slices and strips, and the windows in it.
        let log_pitch = opaque::to_compiler(g.tile_pitch).trailing_zeros();
        let log_row = log_pitch - log_columns;
        let log_windows = LOG_PIXELS - log_rows - log_columns;
        let filter = (number >> log_windows) << log_filters;
        let in_filter = number & ((1 << log_windows) - 1);
        let column = (in_filter & ((1 << log_row) - 1)) << log_columns;
        let row = (in_filter >> log_row) << log_rows;
        let pixel = first + (row << log_pitch) + column;
        let word = self.memory.pixels.load(pixel);
        if filter >= self.filters || !is_inside(self.limits(), word) {
            return None;
        }
        let [d, h, w] = from_word(word);
        let z = self.first_slice() + d * g.outputs_d;
        // Recomputed for each window; kept values derived from these would take registers.
        let sample = opaque::to_compiler(self.place.sample);
        let p = opaque::to_compiler(self.place.p) + h;
        let q = opaque::to_compiler(self.place.q) + w;
        let (of_row, of_column) = (p >> log_rows, q >> log_columns);
        if of_row >= height || of_column >= width {
            return None;
        }
        let channels = self.reduced_channels(reduced);
        let channel = sample as usize * channels;
        let of_tile = opaque::to_compiler(self.channel) + filter;
        let channel = channel + (of_tile >> log_filters) as usize;
        let slice = channel * conv.z as usize + z as usize;
        let to = (slice * height as usize + of_row as usize) * width as usize;
        Some(Window {
            filter,
            in_filter,
            first: [z, p, q],
            to: to + of_column as usize,
        })
    }

    /// Returns the channels of the output.
    #[inline(always)]
    fn reduced_channels(&self, reduced: &ReducedResults) -> usize {
        let filters = opaque::to_compiler(self.g.conv.output_channels());
        let of_channel = 1 << reduced.log_filters;
        ((filters + of_channel - 1) >> reduced.log_filters) as usize
    }

    /// The output.
    #[inline(always)]
    pub(super) unsafe fn reduced_output(&self, reduced: &ReducedResults) -> GlobalMut<F::Stored> {
        let conv = &self.g.conv;
        let planes = conv.n as usize * self.reduced_channels(reduced) * conv.z as usize;
        let plane = reduced.height as usize * reduced.width as usize;
        GlobalMut::new(self.output.y, planes * plane)
    }
}
const _: () = assert!(SETS == 4 && Rows::<f32>::PIXELS == REDUCED_PIXELS);
