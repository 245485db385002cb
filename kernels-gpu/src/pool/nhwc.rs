//! Pools of channels-last tensors: the maximum or the average of each window of images and volumes.
//!
//! # Idea
//! Neighbouring lanes have neighbouring vectors of four channels, then neighbouring runs of four outputs of a
//! row, so a warp's loads and stores are whole sectors. A thread tests once for each row of its windows
//! whether the row is in the input. Elements that the windows of several threads share hit L1.
//!
//! **Averages** are summed in the order of [`fn@super::pool`], with separate sums for rows, slices and the
//! window. The four loads of a tap are in flight together, and all columns of a row for the adjacent columns
//! that maxima have below:
//!
//! ```text
//! for each run of the thread:
//!     sum[0..4] = 0
//!     for each slice t and row r of the window:
//!         for each column s:
//!             value[o] = x[slice + t][row + r][column + stride * o + s], or 0 in the padding
//!             of_row[o] = of_row[o] + value[o]
//!     y = sum / divisor
//! ```
//!
//! **Maxima** compare stored values, two 16-bit ones at a time; their order changes no bit. For windows of
//! two adjacent columns, or of three with a stride of one or two, a thread loads each column of a row once
//! and all columns at a time: nine, where four windows of three columns have twelve. These windows need no
//! values for the padding, because the nearest column of the input is in each window that reaches beyond it.
//!
//! The results are bit-identical to those of the NCHW kernels.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, packed};
use launch_config::VECTOR_ELEMENTS;
use launch_config::nhwc::MAX_BLOCK_THREADS;
use launch_config::pool::{
    NHWC_MIN_BLOCKS, NhwcWindowGeometry, OUTPUTS_PER_THREAD, WindowGeometry,
};

use super::divisor;
use crate::parts::nhwc::{BlockPlace, InputRow, Run, Vector};
use crate::parts::unroll::unroll;

/// The values of a vector packed into words. A 16-bit type has two values a word and uses the first two
/// words.
type Words = [u32; VECTOR_ELEMENTS];

/// A storage type whose maxima are taken on packed words.
pub(crate) trait WordMax: Storage {
    /// Words of a vector.
    const WORDS: usize;

    /// A word of negative infinities.
    const NONE: u32;

    /// The larger value at each position of two words; NaN if either is.
    fn larger_word(a: u32, b: u32) -> u32;

    /// Packs a vector into words.
    fn pack(vector: [Self; VECTOR_ELEMENTS]) -> Words;

    /// Unpacks words into a vector.
    fn unpack(words: Words) -> [Self; VECTOR_ELEMENTS];
}

impl WordMax for f32 {
    const WORDS: usize = 4;
    const NONE: u32 = f32::NEG_INFINITY.to_bits();

    #[inline(always)]
    fn larger_word(a: u32, b: u32) -> u32 {
        math::max_nan(f32::from_bits(a), f32::from_bits(b)).to_bits()
    }

    #[inline(always)]
    fn pack(vector: [Self; VECTOR_ELEMENTS]) -> Words {
        vector.map(f32::to_bits)
    }

    #[inline(always)]
    fn unpack(words: Words) -> [Self; VECTOR_ELEMENTS] {
        words.map(f32::from_bits)
    }
}

macro_rules! of_16_bits {
    ($($T:ty: $larger:path;)*) => {$(
        impl WordMax for $T {
            const WORDS: usize = 2;
            const NONE: u32 = <$T>::NEG_INFINITY.to_bits() as u32 * 0x1_0001;

            #[inline(always)]
            fn larger_word(a: u32, b: u32) -> u32 {
                $larger(a, b)
            }

            #[inline(always)]
            fn pack(vector: [Self; VECTOR_ELEMENTS]) -> Words {
                let [a, b, c, d] = vector.map(|value| u32::from(value.to_bits()));
                [a | b << 16, c | d << 16, 0, 0]
            }

            #[inline(always)]
            fn unpack([low, high, ..]: Words) -> [Self; VECTOR_ELEMENTS] {
                [low, low >> 16, high, high >> 16].map(|word| Self::from_bits(word as u16))
            }
        }
    )*};
}

of_16_bits! {
    f16: packed::max_nan_f16x2;
    bf16: packed::max_nan_bf16x2;
}

/// A block computes the maxima of runs of windows of one sample, for some channels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: neighbouring threads have neighbouring vectors of four channels, then neighbouring runs.
/// *Barriers*: none.
/// *Traffic*: each element of a window is read once from cache, each element of the input about once from
/// memory; each output is written once.
///
/// # Safety
/// As for [`fn@super::pool`], except that `x` and `y` are channels last and 16-byte aligned, and `g`
/// describes maxima. Padding is at most half of a window, and no window starts after the input.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = NHWC_MIN_BLOCKS)]
pub unsafe fn max_pool_nhwc<T: WordMax>(x: *const T, y: *mut T, g: &NhwcWindowGeometry) {
    let (blocks, g) = (&g.blocks, &g.windows);
    let Some(place) = BlockPlace::of(blocks).of_thread(blocks) else {
        return;
    };
    let x = Global::new(x, (g.planes * g.plane_elements()) as usize);
    let y = GlobalMut::new(y, (g.planes * g.plane_outputs()) as usize);
    // A dilated window may have all its columns in the padding, so it takes the general path.
    let columns = if g.dilation[2] == 1 { g.kernel[2] } else { 0 };
    let mut number = place.first_run;
    while number < place.end {
        let run = Run::of(blocks, number, &g.output, &g.stride, &g.padding);
        let [d, h, first] = run.input;
        let mut results = [[T::NONE; VECTOR_ELEMENTS]; OUTPUTS_PER_THREAD];
        let mut t = 0;
        while t < g.kernel[0] {
            let d = d.wrapping_add(t * g.dilation[0]);
            let mut r = 0;
            while r < g.kernel[1] {
                let h = h.wrapping_add(r * g.dilation[1]);
                let row = InputRow::of(x, blocks.channels, &place, &g.input, [d, h]);
                if row.columns > 0 {
                    results = match (columns, g.stride[2]) {
                        (3, 2) => with_columns::<T, 3, 2>(results, &row, first),
                        (3, 1) => with_columns::<T, 3, 1>(results, &row, first),
                        (2, 2) => with_columns::<T, 2, 2>(results, &row, first),
                        _ => with_taps(results, &row, first, g),
                    };
                }
                r += 1;
            }
            t += 1;
        }

        let [z, p, q] = run.output;
        let (rows, row) = (g.output[0] * g.output[1], z * g.output[1] + p);
        let [start, len] = place.of_row(blocks.channels, rows, row, g.output[2]);
        let y = y.slice(start, len);
        unroll!(4, |o| {
            if (o as u32) < run.len {
                let at = (q + o as u32) * blocks.channels;
                y.store_vec(at as usize, T::unpack(results[o]));
            }
        });
        number += blocks.round_runs;
    }
}

/// The maxima of a thread's windows, including windows beyond the end of its run.
type Maxima = [Words; OUTPUTS_PER_THREAD];

/// The larger value at each position of two packed vectors.
#[inline(always)]
fn larger<T: WordMax>(mut a: Words, b: Words) -> Words {
    unroll!(4, |word| {
        if word < T::WORDS {
            a[word] = T::larger_word(a[word], b[word]);
        }
    });
    a
}

/// Combines `maxima` with one row of the windows, which have `COLUMNS` columns, start at column `first` and
/// are `STRIDE` columns apart.
///
/// # Safety
/// The row has columns. Each window has a column outside the padding.
#[inline(always)]
unsafe fn with_columns<T: WordMax, const COLUMNS: usize, const STRIDE: usize>(
    mut maxima: Maxima,
    row: &InputRow<T>,
    first: u32,
) -> Maxima {
    let mut columns = [[T::NONE; VECTOR_ELEMENTS]; 9];
    unroll!(9, |i| {
        if i < (OUTPUTS_PER_THREAD - 1) * STRIDE + COLUMNS {
            // Columns are less than 2^31, and negative in front of the input.
            let w = (first.wrapping_add(i as u32) as i32).max(0) as u32;
            columns[i] = T::pack(row.load_vec(w.min(row.columns - 1)));
        }
    });
    unroll!(4, |o| {
        unroll!(3, |s| {
            if s < COLUMNS {
                maxima[o] = larger::<T>(maxima[o], columns[o * STRIDE + s]);
            }
        });
    });
    maxima
}

/// [`with_columns`] for any windows, one column of each window at a time.
///
/// # Safety
/// The row has columns, and `g` describes maxima.
#[inline(always)]
unsafe fn with_taps<T: WordMax>(
    mut maxima: Maxima,
    row: &InputRow<T>,
    first: u32,
    g: &WindowGeometry,
) -> Maxima {
    let (mut w, mut s) = (first, 0);
    while s < g.kernel[2] {
        let mut values = [[T::NONE; VECTOR_ELEMENTS]; OUTPUTS_PER_THREAD];
        unroll!(4, |o| {
            let w = w.wrapping_add((o as u32).wrapping_mul(g.stride[2]));
            if w < row.columns {
                values[o] = T::pack(row.load_vec(w));
            }
        });
        unroll!(4, |o| {
            maxima[o] = larger::<T>(maxima[o], values[o]);
        });
        w = w.wrapping_add(g.dilation[2]);
        s += 1;
    }
    maxima
}

/// [`fn@max_pool_nhwc`] for averages.
///
/// *Launch*, *Mapping*, *Barriers*, *Traffic*: as for [`fn@max_pool_nhwc`].
///
/// # Safety
/// As for [`fn@max_pool_nhwc`], except that `g` describes averages.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = NHWC_MIN_BLOCKS)]
pub unsafe fn avg_pool_nhwc<T: Storage>(x: *const T, y: *mut T, g: &NhwcWindowGeometry) {
    let (blocks, g) = (&g.blocks, &g.windows);
    let Some(place) = BlockPlace::of(blocks).of_thread(blocks) else {
        return;
    };
    let x = Global::new(x, (g.planes * g.plane_elements()) as usize);
    let y = GlobalMut::new(y, (g.planes * g.plane_outputs()) as usize);
    let none = [[0.0; VECTOR_ELEMENTS]; OUTPUTS_PER_THREAD];
    let mut number = place.first_run;
    while number < place.end {
        let run = Run::of(blocks, number, &g.output, &g.stride, &g.padding);
        let [d, h, first] = run.input;
        let mut sums = none;
        let mut t = 0;
        while t < g.kernel[0] {
            let d = d.wrapping_add(t * g.dilation[0]);
            let mut of_slice = none;
            let mut r = 0;
            while r < g.kernel[1] {
                let h = h.wrapping_add(r * g.dilation[1]);
                let row = InputRow::of(x, blocks.channels, &place, &g.input, [d, h]);
                if row.columns > 0 {
                    of_slice = match (g.kernel[2], g.stride[2]) {
                        (3, 2) => and_columns::<T, 3, 2>(of_slice, &row, first),
                        (3, 1) => and_columns::<T, 3, 1>(of_slice, &row, first),
                        (2, 2) => and_columns::<T, 2, 2>(of_slice, &row, first),
                        _ => and(of_slice, of_taps(&row, first, g)),
                    };
                }
                r += 1;
            }
            sums = and(sums, of_slice);
            t += 1;
        }

        let [z, p, q] = run.output;
        let (rows, row) = (g.output[0] * g.output[1], z * g.output[1] + p);
        let [start, len] = place.of_row(blocks.channels, rows, row, g.output[2]);
        let y = y.slice(start, len);
        let mut o = 0;
        while o < run.len {
            let divisor = divisor(g, [z, p, q + o]);
            let average = sums[0].map(|sum| sum / divisor);
            let at = (q + o) * blocks.channels;
            y.store_vec(at as usize, T::from_f32_vector(average));
            sums = [sums[1], sums[2], sums[3], sums[0]];
            o += 1;
        }
        number += blocks.round_runs;
    }
}

/// The sums of a thread's windows, including windows beyond the end of its run.
type Sums = [Vector; OUTPUTS_PER_THREAD];

/// The sums of two parts of the windows.
#[inline(always)]
fn and(mut a: Sums, b: Sums) -> Sums {
    unroll!(4, |o| {
        unroll!(4, |c| {
            a[o][c] += b[o][c];
        });
    });
    a
}

/// Adds to `sums` the sums of one row of the windows, which have `COLUMNS` columns, start at column `first`
/// and are `STRIDE` columns apart.
///
/// # Safety
/// The row's values do not change during the kernel.
#[inline(always)]
unsafe fn and_columns<T: Storage, const COLUMNS: usize, const STRIDE: usize>(
    mut sums: Sums,
    row: &InputRow<T>,
    first: u32,
) -> Sums {
    let mut columns = [[T::from_f32(0.0); VECTOR_ELEMENTS]; 9];
    unroll!(9, |i| {
        let w = first.wrapping_add(i as u32);
        if i < (OUTPUTS_PER_THREAD - 1) * STRIDE + COLUMNS && w < row.columns {
            columns[i] = row.load_vec(w);
        }
    });
    unroll!(4, |o| {
        let mut of_row = [0.0; VECTOR_ELEMENTS];
        unroll!(3, |tap| {
            if tap < COLUMNS {
                let values = T::to_f32_vector(columns[o * STRIDE + tap]);
                unroll!(4, |c| {
                    of_row[c] += values[c];
                });
            }
        });
        unroll!(4, |c| {
            sums[o][c] += of_row[c];
        });
    });
    sums
}

/// The sums of one row of any windows, one column of each window at a time.
///
/// # Safety
/// As for [`and_columns`].
#[inline(always)]
unsafe fn of_taps<T: Storage>(row: &InputRow<T>, first: u32, g: &WindowGeometry) -> Sums {
    let none = [[0.0; VECTOR_ELEMENTS]; OUTPUTS_PER_THREAD];
    let (mut of_row, mut w, mut s) = (none, first, 0);
    while s < g.kernel[2] {
        // A conversion before the next load would wait for each load.
        let mut values = [[T::from_f32(0.0); VECTOR_ELEMENTS]; OUTPUTS_PER_THREAD];
        unroll!(4, |o| {
            let w = w.wrapping_add((o as u32).wrapping_mul(g.stride[2]));
            if w < row.columns {
                values[o] = row.load_vec(w);
            }
        });
        of_row = and(of_row, values.map(T::to_f32_vector));
        w = w.wrapping_add(g.dilation[2]);
        s += 1;
    }
    of_row
}
const _: () = assert!(VECTOR_ELEMENTS == 4 && OUTPUTS_PER_THREAD == 4);
