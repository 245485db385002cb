//! Depthwise convolution of channels-last images by small square filters on FMA units, without a norm.
//!
//! # Idea
//! The outputs of a pixel need few products of each channel, so memory should be the limit: inputs are loaded
//! about once, with many loads in flight, and little is executed besides the FMAs.
//!
//! 1. A thread has a pair of channels of a *run*, four outputs of a row, and goes down the rows of a
//!    *segment*. Lanes are neighbouring pairs first, then neighbouring runs, so a warp's loads and stores are
//!    whole sectors.
//! 2. Sums *roll*: a row of the input is loaded and converted once, and is multiplied for all rows of the
//!    output whose windows contain it: `ceil(R / S)` rows, for `R` rows of the filter and stride `S`. When
//!    the sums of a row are complete, the sums of the next one take their place.
//! 3. The next row of the input is in flight while a row is multiplied. It is kept as it was loaded. The taps
//!    of the pair stay in registers, too, if there are no more than 25.
//!
//! ```text
//! a block has items (a run of a segment of a sample), and up to 64 pairs of channels
//! next = the first row of the input: the inputs of the run's windows        # 0 in the padding
//! filter = taps, bias, gain and shift of the block's channels in shared memory
//! barrier
//! taps = those of the thread's channels
//! for each row p of the segment, and as many more as are in flight:
//!     for each row of the input between the windows' starts of rows p and p + 1 of the output:
//!         (row, next) = (next, the row behind it)
//!         sums of rows p, p - 1, ... += the products of row and taps, of filter row r, S + r, ...
//!     sum = the oldest sums + bias; sum = batch norm, slope and bounds of it, rounded
//!     y = silu or hardswish of sum, + the residual, slope and bounds of it
//! ```
//!
//! Sums are f32, FMA in the order of the taps, and padding is multiplied as an input of 0: the results have
//! the bits of [`fn@super::depthwise_list`].

mod output;

use core::ffi::c_void;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{bf16, f16, kernel, math, opaque, thread};
use launch_config::batch_norm::FoldGeometry;
use launch_config::depthwise::rolling::{
    MAX_BLOCK_THREADS, PAIR, PITCH, RUN, RollingGeometry, min_blocks,
};
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::{AffineType, Presence};

use super::stage::Filters;
use crate::parts::batch_norm::Norm;
use crate::parts::index::div_rem;
use crate::parts::pair::Pair;
use crate::parts::store::{GainAndShift, StoreEpilogue};
use crate::parts::unroll::unroll;
use output::Output;

/// The most rows and columns of a filter, and of a filter whose taps stay in registers.
const MAX_FILTER: usize = 7;
const MAX_KEPT_FILTER: usize = 5;

/// The most inputs of a run in a row.
const MAX_INPUTS: usize = (RUN - 1) * 2 + MAX_KEPT_FILTER;

/// The taps of a pair of channels, by rows and columns of the filter, if they stay in registers.
type Taps = [[[f32; 2]; MAX_KEPT_FILTER]; MAX_KEPT_FILTER];

/// Values of a run.
type RunValues = [[f32; 2]; RUN];

/// Sums of the rows of the output that are in flight, the newest row first.
type Sums = [RunValues; MAX_FILTER];

const _: () = assert!(RUN == 4 && MAX_INPUTS == 11 && PAIR == 2);

/// A block convolves items of some channels, with filters of `R` rows and columns, by `STRIDE` rows and
/// columns.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: pairs of channels to neighbouring threads, items to the threads behind them.
/// *Barriers*: one, after filters and parameters are in shared memory.
/// *Traffic*: the input about once, and `R - STRIDE` rows once more for each segment; the residual and each
/// output once.
///
/// # Safety
/// `x`, `y` and, if `rounded` adds it, `residual` are channels last, 16-byte aligned and as large as the
/// geometry says; `y` does not overlap the others. The geometry has filters of `R` rows and columns and the
/// stride `STRIDE`. `weight` has the taps of each channel side by side. `bias` has a value for each channel
/// if the geometry has one, `gain` and `shift` if the epilogue uses them, and each tensor of the norm if
/// there is a norm that has it. With a norm the epilogue has no gain and shift. Input and output have less
/// than 2^31 pixels a sample.
#[kernel(
    instances(R: [3, 5], STRIDE: [1, 2], T: [f32, f16, bf16]),
    instances(R: [7], STRIDE: [1], T: [f32, f16, bf16]),
    max_threads = MAX_BLOCK_THREADS,
    min_blocks = min_blocks(R, size_of::<T>())
)]
pub unsafe fn depthwise_nhwc_rolling<T: Pair, const R: usize, const STRIDE: usize>(
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
    g: &RollingGeometry,
    norm: FoldGeometry,
    norm_type: AffineType,
    has_norm: Presence,
    epilogue: Epilogue,
    rounded: RoundedEpilogue,
) {
    let conv = &g.conv;
    let channels = conv.groups;
    let place = Place::of::<STRIDE>(g);
    let inputs = conv.n as usize * conv.input_pixels() as usize * channels as usize;
    let mut input = Input::of::<R, STRIDE>(Global::new(x, inputs), g, &place);
    // The first row is in flight while the filters are.
    let mut row = input.next_row::<R, STRIDE>();

    let of_channels = StoreEpilogue {
        of_channels: GainAndShift { gain, shift },
        epilogue,
    };
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
        epilogue: &of_channels,
        channels,
        taps: (R * R) as u32,
        block_channels: g.block_channels(),
        pitch: PITCH,
    };
    let filter = filters.stage(place.first_channel);
    thread::sync_threads();
    if place.rows == 0 {
        return;
    }
    let outputs = conv.n as usize * conv.output_pixels() as usize * channels as usize;
    let mut output = Output {
        y: GlobalMut::new(y, outputs),
        residual: Global::new(residual, outputs),
        filter: filter.slice(place.of_block, filter.len() - place.of_block),
        epilogue,
        has_gain: has_norm.is_present() || epilogue.gain_and_shift.is_present(),
        rounded,
        channels,
        row_elements: (conv.q * channels) as usize,
        offset: place.output_offset(g),
        columns: input.columns,
    };
    let taps = output.taps::<R>();

    // Rows of the output whose sums are in flight in addition to the newest row.
    let in_flight = R.div_ceil(STRIDE) as u32 - 1;
    let mut sums: Sums = [[[0.0; 2]; RUN]; MAX_FILTER];
    let mut begun = 0;
    // There is no early exit: in front of one, the compiler would keep a row that is not multiplied yet.
    while begun < place.rows + in_flight {
        opaque::not_unrolled();
        let is_complete = begun >= in_flight;
        let next = input.next_row::<R, STRIDE>();
        accumulate::<T, R, STRIDE, 0>(&mut sums, &row, &taps, output.filter);
        row = next;
        if is_complete {
            output.write::<R>(sums[(R - 1) / STRIDE]);
        }
        if STRIDE == 2 {
            let next = input.next_row::<R, STRIDE>();
            accumulate::<T, R, STRIDE, 1>(&mut sums, &row, &taps, output.filter);
            row = next;
        }
        begun += 1;
    }
}

/// Adds the products of a row of the input to the sums. `PHASE` is the row's distance from the start of the
/// windows of the newest output row. A row of `PHASE` 0 begins the sums of a new output row, and the other
/// sums move on by one.
#[inline(always)]
unsafe fn accumulate<T: Pair, const R: usize, const STRIDE: usize, const PHASE: usize>(
    sums: &mut Sums,
    row: &[T::Raw; MAX_INPUTS],
    taps: &Taps,
    filter: Shared<f32>,
) {
    if R <= MAX_KEPT_FILTER {
        // Each input is converted when its turn comes.
        unroll!(11, |j| {
            if j < inputs(R, STRIDE) {
                let values = T::values(row[j]);
                unroll!(4, |i| {
                    if j >= STRIDE * i && j - STRIDE * i < R {
                        let s = j - STRIDE * i;
                        unroll!(5, |newer| {
                            let age = MAX_KEPT_FILTER - 1 - newer;
                            let r = PHASE + STRIDE * age;
                            if r < R {
                                add::<PHASE>(sums, [age, s, i], values, taps[r][s]);
                            }
                        });
                    }
                });
            }
        });
    } else {
        // Each tap is loaded once.
        let mut values = [[0.0; 2]; MAX_INPUTS];
        unroll!(11, |j| {
            if j < inputs(R, STRIDE) {
                values[j] = T::values(row[j]);
            }
        });
        unroll!(7, |newer| {
            let age = MAX_FILTER - 1 - newer;
            let r = PHASE + STRIDE * age;
            if r < R {
                unroll!(7, |s| {
                    let tap = filter.load_vec((r * R + s) as u32 * PITCH);
                    unroll!(4, |i| {
                        add::<PHASE>(sums, [age, s, i], values[STRIDE * i + s], tap);
                    });
                });
            }
        });
    }
}

/// Adds the products of an input and a tap of column `s` to the sums of output `i` of age `age`. The oldest
/// sums come first, because the next ones take their place.
#[inline(always)]
fn add<const PHASE: usize>(
    sums: &mut Sums,
    [age, s, i]: [usize; 3],
    values: [f32; 2],
    tap: [f32; 2],
) {
    let begins = PHASE == 0 && s == 0;
    unroll!(2, |c| {
        let before = match (begins, age) {
            (true, 0) => 0.0,
            (true, _) => sums[age - 1][i][c],
            (false, _) => sums[age][i][c],
        };
        sums[age][i][c] = math::fma(values[c], tap[c], before);
    });
}

/// Inputs of a run in a row.
const fn inputs(filter: usize, stride: usize) -> usize {
    (RUN - 1) * stride + filter
}

/// The item and the channels of a thread.
struct Place {
    /// The block's first channel; the thread's first channel among the block's channels, and among all
    /// channels.
    first_channel: u32,
    of_block: u32,
    channel: u32,
    sample: usize,
    /// The first row and column of the output, and the number of rows; 0 for a thread without any.
    p: u32,
    q: u32,
    rows: u32,
    /// The first row and column of the input in their windows. In the padding before the input they are below
    /// zero, wrapped.
    h: u32,
    w: u32,
}

impl Place {
    /// Returns the place of the calling thread.
    ///
    /// # Safety
    /// The launch is `g.shape()`.
    #[inline(always)]
    unsafe fn of<const STRIDE: usize>(g: &RollingGeometry) -> Self {
        let conv = &g.conv;
        let (of_items, of_channels) = div_rem(thread::block_idx_x(), g.channel_blocks);
        let (of_block, pair) = div_rem(thread::thread_idx_x(), g.block_pairs);
        let item = of_items * g.block_items + of_block;
        let (segment, run) = div_rem(item, g.row_runs);
        let (sample, segment) = div_rem(segment, g.segments);
        let first_channel = of_channels * g.block_channels();
        let channel = first_channel + PAIR * pair;
        let (p, q) = (segment * g.segment_rows, run * RUN as u32);
        let rows = if item < g.items && channel < conv.groups {
            g.segment_rows.min(conv.p - p)
        } else {
            0
        };
        Self {
            first_channel,
            of_block: PAIR * pair,
            channel,
            sample: sample as usize,
            p,
            q,
            rows,
            h: (STRIDE as u32 * p).wrapping_sub(conv.pad_h),
            w: (STRIDE as u32 * q).wrapping_sub(conv.pad_w),
        }
    }

    /// Returns the element of the output at which the thread begins.
    #[inline(always)]
    fn output_offset(&self, g: &RollingGeometry) -> usize {
        let conv = &g.conv;
        let row = self.sample * conv.p as usize + self.p as usize;
        let pixel = row * conv.q as usize + self.q as usize;
        pixel * conv.groups as usize + self.channel as usize
    }
}

/// The rows of the input that a thread loads.
struct Input<T> {
    x: Global<T>,
    channels: u32,
    /// The next row, and the end of the rows that are in the image and in a window.
    row: u32,
    end: u32,
    row_elements: usize,
    /// The first element of the next row. In the padding before the input it is below zero, wrapped.
    offset: usize,
    /// One bit for each input of a row: whether it is a column of the image. Behind them, one bit for each
    /// output of the run: whether it is a column of the output.
    columns: u32,
}

impl<T: Pair> Input<T> {
    #[inline(always)]
    fn of<const R: usize, const STRIDE: usize>(
        x: Global<T>,
        g: &RollingGeometry,
        place: &Place,
    ) -> Self {
        let conv = &g.conv;
        // Both have magnitudes below 2^31, so the sign is that of the number before it wrapped.
        let (h, w) = (
            place.h.cast_signed() as isize,
            place.w.cast_signed() as isize,
        );
        let row = (place.sample * conv.h as usize).wrapping_add_signed(h);
        let pixel = row.wrapping_mul(conv.w as usize).wrapping_add_signed(w);
        let offset = pixel.wrapping_mul(conv.groups as usize);
        let mut columns = 0;
        unroll!(11, |j| {
            if j < inputs(R, STRIDE) && place.w.wrapping_add(j as u32) < conv.w {
                columns |= 1 << j;
            }
        });
        unroll!(4, |i| {
            if place.q + (i as u32) < conv.q {
                columns |= 1 << (MAX_INPUTS + i);
            }
        });
        // The end of the rows of the input in a window. For windows in the padding it is above the image,
        // wrapped.
        let rows = STRIDE as u32 * place.rows + R as u32 - STRIDE as u32;
        let last = place.h.wrapping_add(rows).cast_signed().max(0);
        Self {
            x,
            channels: conv.groups,
            row: place.h,
            end: if place.rows == 0 {
                0
            } else {
                conv.h.min(last.cast_unsigned())
            },
            // The product fits 32 bits: `RollingGeometry::new`.
            row_elements: (conv.w * conv.groups) as usize,
            offset: offset.wrapping_add(place.channel as usize),
            columns,
        }
    }

    /// Loads the next row, and advances to the row behind it.
    ///
    /// # Safety
    /// The tensor is as large as the geometry says, and its values do not change.
    #[inline(always)]
    unsafe fn next_row<const R: usize, const STRIDE: usize>(&mut self) -> [T::Raw; MAX_INPUTS] {
        let columns = if self.row < self.end { self.columns } else { 0 };
        let channels = self.channels as usize;
        let mut row = [T::ZERO; MAX_INPUTS];
        unroll!(11, |j| {
            if j < inputs(R, STRIDE) && columns >> j & 1 != 0 {
                row[j] = T::load(self.x, self.offset.wrapping_add(channels * j));
            }
        });
        self.row = self.row.wrapping_add(1);
        self.offset = self.offset.wrapping_add(self.row_elements);
        row
    }
}
