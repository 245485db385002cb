//! Operand formats: conversion, and the MMA steps of half an output row.

use cuda_std::global::Global;
use cuda_std::wgmma::{self, InFlight, MatrixDescriptor, UNIT_BYTES};
use cuda_std::{Storage, f16, math, mma, opaque};
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    FRAGMENT_WORDS, OneLaunch2dConfig, PART_BYTES, STRIDE_PHASE_BYTES, WARPGROUP_THREADS,
};

use crate::parts::unroll::unroll;

/// A thread's registers of the A operand of one MMA step: two words for each half of K.
pub(super) type Fragment = [u32; FRAGMENT_WORDS as usize];

/// The K-vector of a pixel: eight channels of 16 bits.
pub(super) type Pixel = [u32; 4];

/// Distance between stride phases, in units of 16 bytes.
const STRIDE_PHASE: u32 = STRIDE_PHASE_BYTES / UNIT_BYTES;
/// Distance from a pixel's high to its low part, in units of 16 bytes.
pub(super) const PART: u32 = PART_BYTES / UNIT_BYTES;

/// An operand format of the kernel.
pub(super) trait Format {
    const CONFIG: OneLaunch2dConfig;
    /// Element type of tensors.
    type Stored: Storage;
    /// Whether inputs are multiplied by a power of two.
    const SCALED: bool;
    /// Input tiles whose loads are in flight at a time, up to 4.
    const LOADS_AHEAD: usize;
    /// Four pixels of a row as a lane loads them, before conversion.
    type Raw: Copy;
    /// All A fragments (filters) of a thread.
    type Filters: Copy;
    /// The value of the constant pixels.
    const CONSTANT: f32;

    unsafe fn give_registers();
    unsafe fn take_registers();
    unsafe fn filters(from: Global<u32>, thread: u32) -> Self::Filters;
    /// Sets the filter word that meets the constant pixels, in row `half` of the thread's two.
    unsafe fn set_constant(filters: &mut Self::Filters, half: usize, word: u32);
    /// Starts the MMA batch of half an output row, 64 columns. `rows` are the start addresses in the three
    /// input rows, in units of 16 bytes. `CROSSING` says that the last two rows are in another pipeline stage
    /// than the first.
    unsafe fn start<const CROSSING: bool>(
        filters: &Self::Filters,
        rows: [u32; 3],
        constant: u32,
    ) -> InFlight;

    /// Loads four pixels from `at` on; channels are `plane` elements apart.
    unsafe fn load(x: *const Self::Stored, elements: usize, at: usize, plane: usize) -> Self::Raw;
    /// Zero pixels, for positions beyond the input.
    fn zero() -> Self::Raw;
    /// The largest magnitude, ignoring NaN.
    fn magnitude(raw: &Self::Raw) -> f32;
    /// Pixel `i` of the four as K-vectors, the high and the low part.
    fn pixel(raw: &Self::Raw, i: usize, scale: f32) -> [Pixel; 2];

    /// Two values rounded to operands, `low` in the low half of the word.
    fn pack(low: f32, high: f32) -> u32;
    /// `value` rounded to an operand.
    fn round(value: f32) -> f32;
}

/// The config of a format, with samples spread over more blocks or not.
pub(super) const fn config(alone: OneLaunch2dConfig, spread: bool) -> OneLaunch2dConfig {
    if spread { alone.spread() } else { alone }
}

/// `N` fragments of a thread.
#[inline(always)]
pub(super) unsafe fn fragments<const N: usize>(from: Global<u32>, thread: u32) -> [Fragment; N] {
    let mut fragments = [[0; 4]; N];
    let mut i = 0;
    while i < N {
        let at = (i as u32 * WARPGROUP_THREADS + thread) * FRAGMENT_WORDS;
        fragments[i] = from.load_vec_readonly(at as usize);
        i += 1;
    }
    fragments
}

/// B operand: the columns of horizontal tap `s` of a row, with the second half of K `k` units further.
#[inline(always)]
const fn tap(row: u32, s: u32, k: u32) -> MatrixDescriptor {
    MatrixDescriptor::new(row + s * STRIDE_PHASE, k)
}

/// B operand: the columns of horizontal tap `s`, with the constant pixels as the second half of K.
#[inline(always)]
const fn tap_and_constant(row: u32, s: u32, constant: u32) -> MatrixDescriptor {
    let first = row + s * STRIDE_PHASE;
    MatrixDescriptor::new(first, constant - first)
}

// Nine taps and a constant make five MMA steps. In each of the three input rows, taps 0 and 1 are a pair. Of
// the three taps 2, those of two rows in the same pipeline stage are a pair, and the third one is paired with
// the constant. Rows 0 and 1 are in one stage, unless the stage ends after row 0 (`CROSSING`); then rows 1
// and 2 are. `prepare` writes the filters in this order: three pairs, the pair and the single of the first
// case, the pair and the single of the second.
const PAIR: usize = 3;
const SINGLE: usize = 4;
const CROSSING_PAIR: usize = 5;
const CROSSING_SINGLE: usize = 6;

/// [`Format::set_constant`] for seven fragments.
#[inline(always)]
pub(super) unsafe fn set_constant(f: &mut [Fragment; 7], half: usize, word: u32) {
    f[SINGLE][2 + half] = word;
    f[CROSSING_SINGLE][2 + half] = opaque::to_assembler(word);
}

/// The A fragments and B descriptors of the five MMA steps of a single-part format.
#[inline(always)]
pub(super) fn one_part<const CROSSING: bool>(
    f: &[Fragment; 7],
    [r0, r1, r2]: [u32; 3],
    row: u32,
    constant: u32,
) -> ([Fragment; 5], [MatrixDescriptor; 5]) {
    let (pair, single, pair_row, single_row) = if CROSSING {
        (f[CROSSING_PAIR], f[CROSSING_SINGLE], r1, r0)
    } else {
        (f[PAIR], f[SINGLE], r0, r2)
    };
    (
        [f[0], f[1], f[2], pair, single],
        [
            tap(r0, 0, STRIDE_PHASE),
            tap(r1, 0, STRIDE_PHASE),
            tap(r2, 0, STRIDE_PHASE),
            tap(pair_row, 2, row),
            tap_and_constant(single_row, 2, constant),
        ],
    )
}

/// Four pixels of eight channels in f32.
type RawF32 = [[f32; 4]; 8];

#[inline(always)]
unsafe fn load_f32(x: *const f32, elements: usize, at: usize, plane: usize) -> RawF32 {
    let x = Global::new(x, elements);
    let mut raw = [[0.0; 4]; 8];
    unroll!(8, |c| {
        raw[c] = x.load_vec_readonly(at + c * plane);
    });
    raw
}

#[inline(always)]
fn magnitude_f32(raw: &RawF32) -> f32 {
    let mut most = 0.0;
    unroll!(8, |c| {
        unroll!(4, |i| {
            most = math::max(most, math::abs(raw[c][i]));
        });
    });
    most
}

/// Both halves of a word of f16.
#[inline(always)]
fn unpack(word: u32) -> (f32, f32) {
    let half = |bits: u32| Storage::to_f32(f16::from_bits(bits as u16));
    (half(word), half(word >> 16))
}

macro_rules! register_counts {
    ($config:expr) => {
        #[inline(always)]
        unsafe fn give_registers() {
            if SPREAD {
                cuda_std::registers::decrease::<{ $config.spread().producer_registers }>();
            } else {
                cuda_std::registers::decrease::<{ $config.producer_registers }>();
            }
        }

        #[inline(always)]
        unsafe fn take_registers() {
            if SPREAD {
                cuda_std::registers::increase::<{ $config.spread().consumer_registers }>();
            } else {
                cuda_std::registers::increase::<{ $config.consumer_registers }>();
            }
        }
    };
}
pub(super) use register_counts;

macro_rules! f32_input {
    () => {
        type Stored = f32;
        type Raw = RawF32;
        const SCALED: bool = true;
        // Scaled sums are large: the shift is an f16 operand times this.
        const CONSTANT: f32 = 32768.0;

        #[inline(always)]
        unsafe fn load(x: *const f32, elements: usize, at: usize, plane: usize) -> RawF32 {
            load_f32(x, elements, at, plane)
        }

        #[inline(always)]
        fn zero() -> RawF32 {
            [[0.0; 4]; 8]
        }

        #[inline(always)]
        fn magnitude(raw: &RawF32) -> f32 {
            magnitude_f32(raw)
        }

        #[inline(always)]
        fn pack(low: f32, high: f32) -> u32 {
            mma::pack_f16x2(low, high)
        }

        #[inline(always)]
        fn round(value: f32) -> f32 {
            unpack(mma::pack_f16x2(value, value)).0
        }
    };
}

/// f32 as the sum of two scaled f16.
pub(super) struct F16x2<const SPREAD: bool>;

impl<const SPREAD: bool> Format for F16x2<SPREAD> {
    const CONFIG: OneLaunch2dConfig = config(OneLaunch2dConfig::F16X2, SPREAD);
    const LOADS_AHEAD: usize = if SPREAD { 2 } else { 1 };
    /// Seven fragments of the high parts, seven of the low ones. In the fragments of a single tap, the high
    /// part is in both halves of K, one for each part of a pixel.
    type Filters = [Fragment; 14];

    register_counts!(OneLaunch2dConfig::F16X2);
    f32_input!();

    #[inline(always)]
    unsafe fn filters(from: Global<u32>, thread: u32) -> [Fragment; 14] {
        fragments(from, thread)
    }

    #[inline(always)]
    unsafe fn set_constant(f: &mut [Fragment; 14], half: usize, word: u32) {
        f[7 + SINGLE][2 + half] = word;
        f[7 + CROSSING_SINGLE][2 + half] = opaque::to_assembler(word);
    }

    #[inline(always)]
    unsafe fn start<const CROSSING: bool>(
        f: &[Fragment; 14],
        [r0, r1, r2]: [u32; 3],
        constant: u32,
    ) -> InFlight {
        const ROW: u32 = 2 * PART;
        let ([high, high_single, low, low_single], p, s) = if CROSSING {
            ([f[5], f[6], f[12], f[13]], r1, r0)
        } else {
            ([f[3], f[4], f[10], f[11]], r0, r2)
        };
        // Each pair of taps: high by high, high filter by low pixel, low filter by high pixel.
        let a = [
            f[0],
            f[0],
            f[7],
            f[1],
            f[1],
            f[8],
            f[2],
            f[2],
            f[9],
            high,
            high,
            low,
            high_single,
            low_single,
        ];
        let b = [
            tap(r0, 0, STRIDE_PHASE),
            tap(r0 + PART, 0, STRIDE_PHASE),
            tap(r0, 0, STRIDE_PHASE),
            tap(r1, 0, STRIDE_PHASE),
            tap(r1 + PART, 0, STRIDE_PHASE),
            tap(r1, 0, STRIDE_PHASE),
            tap(r2, 0, STRIDE_PHASE),
            tap(r2 + PART, 0, STRIDE_PHASE),
            tap(r2, 0, STRIDE_PHASE),
            tap(p, 2, ROW),
            tap(p + PART, 2, ROW),
            tap(p, 2, ROW),
            tap(s, 2, PART),
            tap_and_constant(s, 2, constant),
        ];
        wgmma::start_f16_14(&a, &b)
    }

    #[inline(always)]
    fn pixel(raw: &RawF32, i: usize, scale: f32) -> [Pixel; 2] {
        let (mut high, mut low) = ([0; 4], [0; 4]);
        unroll!(4, |c| {
            let (a, b) = (raw[2 * c][i] * scale, raw[2 * c + 1][i] * scale);
            high[c] = mma::pack_f16x2(a, b);
            let (a_high, b_high) = unpack(high[c]);
            low[c] = mma::pack_f16x2(a - a_high, b - b_high);
        });
        [high, low]
    }
}

/// f32 as one scaled f16.
pub(super) struct ScaledF16<const SPREAD: bool>;

impl<const SPREAD: bool> Format for ScaledF16<SPREAD> {
    const CONFIG: OneLaunch2dConfig = config(OneLaunch2dConfig::SCALED_F16, SPREAD);
    const LOADS_AHEAD: usize = 2;
    type Filters = [Fragment; 7];

    register_counts!(OneLaunch2dConfig::SCALED_F16);
    f32_input!();

    #[inline(always)]
    unsafe fn filters(from: Global<u32>, thread: u32) -> [Fragment; 7] {
        fragments(from, thread)
    }

    #[inline(always)]
    unsafe fn set_constant(f: &mut [Fragment; 7], half: usize, word: u32) {
        set_constant(f, half, word);
    }

    #[inline(always)]
    unsafe fn start<const CROSSING: bool>(
        f: &[Fragment; 7],
        rows: [u32; 3],
        constant: u32,
    ) -> InFlight {
        let (a, b) = one_part::<CROSSING>(f, rows, PART, constant);
        wgmma::start_f16_5(&a, &b)
    }

    #[inline(always)]
    fn pixel(raw: &RawF32, i: usize, scale: f32) -> [Pixel; 2] {
        let mut pixel = [0; 4];
        unroll!(4, |c| {
            pixel[c] = mma::pack_f16x2(raw[2 * c][i] * scale, raw[2 * c + 1][i] * scale);
        });
        [pixel, [0; 4]]
    }
}
