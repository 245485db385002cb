//! The store of a warp's results where windows of pixels, and neighbouring filters, are reduced to one
//! result.
//!
//! Results go to rows in shared memory, as f32. From there each lane takes the rows, the columns and the
//! filters of whole windows. Columns are not reduced in registers before: beside the accumulators of a whole
//! tile that would spill.

use core::marker::PhantomData;
use core::ptr;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::tensor_map::TensorMap;
use cuda_std::{Storage, kernel, math, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{BLOCK_THREADS, MainloopConfig, WARP_FILTERS};
use launch_config::implicit_gemm::{
    Epilogue, GemmGeometry, REDUCED_PIXELS, ReducedResults, ResultReduction,
};
use launch_config::pointwise::OperandList;

use super::super::fixup::WithoutNorm;
use super::super::format::{Bf16, Bf16x3, F16, Format, ScaledF16};
use super::super::results::is_inside;
use super::super::tables::from_word;
use super::format::WarpSpecializedFormat;
use super::results::{Output, Results};
use super::shared_rows::Rows;
use super::staged_f32::Scales;
use super::tile_epilogue::Reduced;
use super::{Halves, Input, Share, compute};
use crate::parts::store::{GainAndShift, StoreEpilogue};
use crate::parts::unroll::unroll;

/// The binary logarithm of the filters of a large set that a lane loads at the same time.
const LOG_FILTERS_IN_FLIGHT: u32 = 3;

/// Sets of filters of which a lane loads at the same time.
const SETS: usize = 2;

/// The binary logarithm of the pixels of a staged tile.
const LOG_PIXELS: u32 = REDUCED_PIXELS.trailing_zeros();

/// Octets of pixels of a staged tile.
const OCTETS: usize = REDUCED_PIXELS as usize / 8;

/// [`implicit_gemm_sm90_store`](fn@super::implicit_gemm_sm90_store) with results that are reduced before they
/// are written: windows of pixels, and neighbouring filters. Results are rounded to the stored type before,
/// and reduced in f32. With the geometry's `shuffle`, neighbouring filters are phases of a channel.
///
/// # Safety
/// As for [`fn@super::implicit_gemm_sm90_store`], without a residual and without split-K. The geometry's
/// tiles have whole windows of `reduced`, and `y` has an element for each result that it says.
#[kernel(
    instances(
        S: [halves: Halves],
        F: [scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16, bf16: Bf16]
    ),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn implicit_gemm_sm90_reduce<
    S: Share,
    F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
>(
    reformatted: *const u32,
    input_descales: *const f32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    x: *const F::Stored,
    weight: *const F::Stored,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    y: *mut F::Stored,
    largest: *mut u32,
    boxes: &TensorMap,
    filter_boxes: &TensorMap,
    g: &GemmGeometry,
    mainloop: MainloopConfig,
    epilogue: Epilogue,
    list: &OperandList,
    reduced: ReducedResults,
    recorded: u32,
) {
    let input = Input {
        reformatted,
        operands,
        filter_descales,
        bias,
        boxes,
        filter_boxes,
    };
    let output = Output::<F, Reduced> {
        y,
        moments: ptr::null_mut(),
        scales: Scales {
            recorded,
            descales: Global::new(input_descales, g.conv.n as usize),
            largest,
        },
        without_norm: WithoutNorm {
            x,
            weight,
            store: StoreEpilogue {
                of_channels: GainAndShift { gain, shift },
                epilogue,
            },
            list,
            residual: ptr::null(),
            behind: GainAndShift {
                gain: gain_behind,
                shift: shift_behind,
            },
            rounded: None,
        },
        reduced: Some(reduced),
        tile_epilogue: PhantomData,
    };
    compute::<S, F, Reduced>(&input, &output, g, mainloop);
}

/// A window of a staged tile: its first pixel in the tile, and its place in the output.
pub(super) struct Window {
    /// The first of its filters among those of the warp.
    pub(super) filter: u32,
    pixel: u32,
    /// Coordinates of the first pixel in the convolution's output.
    pub(super) first: [u32; 3],
    /// The element of the output.
    pub(super) to: usize,
}

/// Whether values are added. Recomputed each time, or it would take a register during the mainloop.
#[inline(always)]
pub(super) fn is_sum(reduced: &ReducedResults) -> bool {
    opaque::to_compiler(reduced.operation.code()) == ResultReduction::SUM.code()
}

/// Two values of a window as one.
#[inline(always)]
pub(super) fn combined(is_sum: bool, a: f32, b: f32) -> f32 {
    if is_sum { a + b } else { math::max_nan(a, b) }
}

/// The result of a window whose values have been combined.
#[inline(always)]
pub(super) fn finished(reduced: &ReducedResults, value: f32) -> f32 {
    if is_sum(reduced) {
        value / reduced.divisor
    } else {
        value * reduced.sign
    }
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Reduced> {
    /// The reduction. Its logarithms are recomputed each time: what depends on them alone would else take
    /// registers during the mainloop.
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
    fn window_rows(&self) -> Rows<f32> {
        Rows(self.rows.0.cast())
    }

    /// Stores staged tile `staged_tile` of a half to shared memory, rounded to the stored type.
    ///
    /// # Safety
    /// All lanes of the warp make this call, and no lane reads the previous values any more.
    #[inline(always)]
    pub(super) unsafe fn store_windows(&self, sums: &[f32; SUMS], staged_tile: usize) {
        let places = self.window_rows().of_lane(self.lane);
        unroll!(8, |n| {
            unroll!(2, |i| {
                let at = 4 * (OCTETS * staged_tile + n) + 2 * i;
                let rounded = F::Stored::from_f32_pair([sums[at], sums[at + 1]]);
                places.store(i, n, F::Stored::to_f32_pair(rounded));
            });
        });
    }

    /// Writes the windows of the staged tile whose first pixel is `first`.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier behind the stores of the rows.
    #[inline(always)]
    pub(super) unsafe fn write_windows(&self, first: u32) {
        let Some(reduced) = self.reduced() else {
            return;
        };
        // Lanes have windows side by side, of one set of filters or of several. Where sets are small, each
        // keeps its window and takes one set after another, so that only addresses change.
        let windows = match reduced.log_filters >= LOG_FILTERS_IN_FLIGHT {
            true => self.windows(&reduced),
            false => REDUCED_PIXELS >> (reduced.log_rows + reduced.log_columns),
        };
        let lane = opaque::to_compiler(self.lane);
        let mut number = lane;
        loop {
            opaque::not_unrolled();
            if let Some(window) = self.window_of(&reduced, first, number) {
                // The last windows of a row may have fewer columns.
                match self.extents(&reduced, &window)[2] {
                    _ if reduced.log_filters >= LOG_FILTERS_IN_FLIGHT => {
                        self.write_set(&reduced, &window, first);
                    }
                    2 => self.write_sets::<2>(&reduced, &window, first),
                    4 | 8 => self.write_sets::<4>(&reduced, &window, first),
                    _ => self.write_sets::<1>(&reduced, &window, first),
                }
            }
            number = opaque::to_compiler(number + WARP_THREADS);
            if number >= windows {
                break;
            }
        }
    }

    /// Writes the results of a window of all sets of filters that the lane has, from that of the window on:
    /// `COLUMNS` of its values are loaded at a time.
    #[inline(always)]
    unsafe fn write_sets<const COLUMNS: usize>(
        &self,
        reduced: &ReducedResults,
        window: &Window,
        first: u32,
    ) {
        let rows = self.window_rows();
        let &ReducedResults { sign, neutral, .. } = reduced;
        let [_, of_window, columns] = self.extents(reduced, window);
        // Filters from one of the lane's sets to the next.
        let log_windows = LOG_PIXELS - reduced.log_rows - reduced.log_columns;
        let step = (WARP_THREADS >> log_windows).max(1) << reduced.log_filters;
        let pitch = opaque::to_compiler(self.g.tile_pitch);
        let plane = (reduced.height * reduced.width) as usize * self.g.conv.z as usize;
        let next = plane * (step >> reduced.log_filters) as usize;
        let y = self.reduced_output(reduced);
        let (mut filter, mut to) = (window.filter, window.to);
        let mut at = filter * Rows::<f32>::PITCH + window.pixel - first;
        while filter < self.filters {
            opaque::not_unrolled();
            let is_sum = is_sum(reduced);
            let mut values = [[neutral; COLUMNS]; SETS];
            let mut of_set = 0;
            while of_set >> reduced.log_filters == 0 {
                opaque::not_unrolled();
                let mut from = at + of_set * Rows::<f32>::PITCH;
                let mut row = 0;
                while row < of_window {
                    opaque::not_unrolled();
                    let mut column = 0;
                    while column < columns {
                        opaque::not_unrolled();
                        // Those of several sets are in flight. Filters beyond the last are not there.
                        let mut loaded = [[neutral; COLUMNS]; SETS];
                        unroll!(2, |i| {
                            let i32 = i as u32;
                            if filter + i32 * step + of_set < self.filters {
                                let from = from + column + i32 * step * Rows::<f32>::PITCH;
                                let of_row = rows.0.load_vec::<COLUMNS>(from);
                                loaded[i] = of_row.map(|value| value * sign);
                            }
                        });
                        unroll!(2, |i| {
                            unroll!(4, |j| {
                                if j < COLUMNS {
                                    values[i][j] = combined(is_sum, values[i][j], loaded[i][j]);
                                }
                            });
                        });
                        column = opaque::to_compiler(column + COLUMNS as u32);
                    }
                    from = opaque::to_compiler(from + pitch);
                    row = opaque::to_compiler(row + 1);
                }
                of_set = opaque::to_compiler(of_set + 1);
            }
            unroll!(2, |i| {
                if filter + i as u32 * step < self.filters {
                    let mut value = values[i][0];
                    unroll!(4, |j| {
                        if 0 < j && j < COLUMNS {
                            value = combined(is_sum, value, values[i][j]);
                        }
                    });
                    let value = F::Stored::from_f32(finished(reduced, value));
                    y.store(to + i * next, value);
                }
            });
            to += SETS * next;
            at = opaque::to_compiler(at + SETS as u32 * step * Rows::<f32>::PITCH);
            filter = opaque::to_compiler(filter + SETS as u32 * step);
        }
    }

    /// Writes the result of a window of a whole set of many filters, several of which are loaded at a time.
    #[inline(always)]
    unsafe fn write_set(&self, reduced: &ReducedResults, window: &Window, first: u32) {
        let rows = self.window_rows();
        let &ReducedResults { sign, neutral, .. } = reduced;
        let is_sum = is_sum(reduced);
        let [filters, of_window, columns] = self.extents(reduced, window);
        let (end, pitch) = (window.filter + filters, self.g.tile_pitch);
        let (mut value, mut row) = (neutral, 0);
        while row < of_window {
            opaque::not_unrolled();
            let mut column = 0;
            while column < columns {
                opaque::not_unrolled();
                let of_pixel = window.pixel - first + row * pitch + column;
                let mut filter = window.filter;
                while filter < end {
                    opaque::not_unrolled();
                    let from = filter * Rows::<f32>::PITCH + of_pixel;
                    let mut loaded = [neutral; 1 << LOG_FILTERS_IN_FLIGHT];
                    unroll!(8, |i| {
                        if filter + (i as u32) < end {
                            loaded[i] = rows.0.load(from + i as u32 * Rows::<f32>::PITCH) * sign;
                        }
                    });
                    unroll!(8, |i| {
                        value = combined(is_sum, value, loaded[i]);
                    });
                    filter = opaque::to_compiler(filter + (1 << LOG_FILTERS_IN_FLIGHT));
                }
                column = opaque::to_compiler(column + 1);
            }
            row = opaque::to_compiler(row + 1);
        }
        let value = F::Stored::from_f32(finished(reduced, value));
        self.reduced_output(reduced).store(window.to, value);
    }

    /// The filters, rows and columns of a window that the output has.
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

    /// Windows of a staged tile, those of all filters of a warp.
    #[inline(always)]
    pub(super) fn windows(&self, reduced: &ReducedResults) -> u32 {
        let log = reduced.log_filters + reduced.log_rows + reduced.log_columns;
        (WARP_FILTERS * REDUCED_PIXELS) >> log
    }

    /// Window `number` of the staged tile whose first pixel is `first`; none that is not written.
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
        // Recomputed for each: values derived from these would else take registers.
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
            pixel,
            first: [z, p, q],
            to: to + of_column as usize,
        })
    }

    /// Channels of the output.
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
const _: () = assert!(OCTETS == 8 && Rows::<f32>::PIXELS == REDUCED_PIXELS);
