//! Operand formats.
//!
//! The product of an item is `positions x K` by `K x filters`. For one horizontal tap, K runs over
//! 27 taps `(c, t, r)`, two to a 32-bit word. A *plane* holds one word for each pixel, so a
//! word's address follows from its plane, row and column alone, and the words that serve tap
//! `s = 0` of column `q` serve tap 1 of column `q - 1` and tap 2 of `q - 2`: each is loaded once
//! and used three times.
//!
//! Nine `(t, r)` and the planes give the words; a *quartet* is four of them, one for each lane of a
//! quad, and two quartets are the K of one m16n8k16 step. With `line = 3 * t + r`, quartet `LOW` is lines
//! 0 to 3, `HIGH` lines 4 to 7, and the remaining words form a quartet of their own:
//!
//! | kernel | planes, as pairs of halves | steps |
//! |---|---|---|
//! | split | `(c0, c1)` high parts; `(c0, c1)` low parts; `(c2 high, c2 low)` | 6, with 5 sets of filters |
//! | others | `(c0, c1)`; `(c2, c2` one deeper`)` | 2 |
//!
//! Split values have a high and a low part of 11 bits each, and three of the four products are summed (and
//! the fourth where it costs nothing): high by high, low by high, high by low. The dropped part is 2^-22 of a
//! product.

use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, mma};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    IN_CHANNELS, PAIR_PLANES, SPLIT_PLANES,
};

/// Lines of a filter: its `(t, r)`.
const LINES: u32 = 9;

/// The storage and operand format of a kernel.
pub(super) trait Format {
    /// The storage type of input, parameters and output.
    type Stored: Storage;
    /// Whether values are split in two parts.
    const F16X2: bool;
    /// Whether values are centred and scaled before they are rounded. 16-bit values are operands without
    /// conversion.
    const CENTRED: bool;
    /// Words of a pixel.
    const PLANES: u32;
    /// Sets of filter operands for each horizontal tap.
    const FILTER_STEPS: u32;
    /// Two values rounded to halves of a word.
    fn pack(low: f32, high: f32) -> u32;
    /// The value of a half.
    fn half(bits: u16) -> f32;
    /// `a * b + d`.
    ///
    /// # Safety
    /// All lanes of the warp make this call.
    unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4];
}

/// f32 split into two f16.
pub(super) struct F16x2;
/// f32 rounded to one scaled f16.
pub(super) struct ScaledF16;
/// f16.
pub(super) struct F16;
/// bf16.
pub(super) struct Bf16;

macro_rules! format {
    ($name:ident, $stored:ident, $half:ident, $pack:ident, $mma:ident, $split:literal, $centred:literal, $planes:ident, $steps:literal) => {
        impl Format for $name {
            type Stored = $stored;
            const F16X2: bool = $split;
            const CENTRED: bool = $centred;
            const PLANES: u32 = $planes;
            const FILTER_STEPS: u32 = $steps;
            #[inline(always)]
            fn pack(low: f32, high: f32) -> u32 {
                mma::$pack(low, high)
            }
            #[inline(always)]
            fn half(bits: u16) -> f32 {
                // Not `half`'s own method of that name, which converts in software.
                Storage::to_f32($half::from_bits(bits))
            }
            #[inline(always)]
            unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
                mma::$mma(d, a, b)
            }
        }
    };
}
format!(
    F16x2,
    f32, f16, pack_f16x2, m16n8k16_f16, true, true, SPLIT_PLANES, 5
);
format!(
    ScaledF16,
    f32, f16, pack_f16x2, m16n8k16_f16, false, true, PAIR_PLANES, 2
);
format!(
    F16,
    f16, f16, pack_f16x2, m16n8k16_f16, false, false, PAIR_PLANES, 2
);
format!(
    Bf16,
    bf16, bf16, pack_bf16x2, m16n8k16_bf16, false, false, PAIR_PLANES, 2
);

/// The values of the low and the high half of a word.
#[inline(always)]
pub(super) fn halves<F: Format>(word: u32) -> [f32; 2] {
    [F::half(word as u16), F::half((word >> 16) as u16)]
}

/// The contents of a filter word.
#[derive(Clone, Copy, PartialEq)]
enum Pair {
    /// Channels 0 and 1 of one line.
    Channels,
    /// Channel 2 of one line, twice: for its high and its low part.
    Bf16x3,
    /// Channel 2 of a line and of the line one deeper. Of two such words the second, at `t = 1`,
    /// gives only its deeper half, `t = 2`.
    Depths,
    /// Padding: the quartet has fewer than four words.
    Nothing,
}

/// The filter word for quad lane `quad_lane`'s word of quartet `half` in step `step`, for filter `k` and
/// horizontal tap `s`, with values times `scale`.
///
/// # Safety
/// `filters` holds all filters.
#[inline(always)]
pub(super) unsafe fn filter_word<F: Format>(
    filters: Shared<F::Stored>,
    [k, s]: [u32; 2],
    [step, half, quad_lane]: [u32; 3],
    scale: f32,
) -> u32 {
    let (line, low_part, pair);
    if F::F16X2 {
        let rest = step == 4;
        line = if rest { 8 } else { half * 4 + quad_lane };
        low_part = if rest { half == 1 } else { step >= 2 };
        pair = match (rest, step % 2, quad_lane) {
            (false, 0, _) | (true, _, 0) => Pair::Channels,
            (false, _, _) | (true, _, 2) => Pair::Bf16x3,
            // Low parts of values meet high parts of filters only.
            (true, _, 1) if half == 0 => Pair::Channels,
            _ => Pair::Nothing,
        };
    } else {
        low_part = false;
        (line, pair) = match (step, half, quad_lane) {
            (0, _, _) => (half * 4 + quad_lane, Pair::Channels),
            (_, 0, _) => (quad_lane, Pair::Depths),
            (_, _, 0) => (8, Pair::Channels),
            (_, _, 1) => (4, Pair::Depths),
            (_, _, 2) => (5, Pair::Depths),
            _ => (5, Pair::Nothing),
        };
    }
    let channel = if pair == Pair::Channels { 0 } else { 2 };
    let first = (k * IN_CHANNELS + channel) * LINES + line;
    let second = match pair {
        Pair::Channels => first + LINES,
        Pair::Depths => first + 3,
        _ => first,
    };
    let at = |line: u32| filters.load(line * 3 + s).to_f32() * scale;
    let (low, high) = (at(first), at(second));
    let low = if pair == Pair::Nothing || (pair == Pair::Depths && line >= 3) {
        0.0
    } else {
        low
    };
    let high = if pair == Pair::Nothing { 0.0 } else { high };
    let word = F::pack(low, high);
    if low_part {
        let [rounded_low, rounded_high] = halves::<F>(word);
        F::pack(low - rounded_low, high - rounded_high)
    } else {
        word
    }
}

/// Word offsets, from the pixel of a position, of quad lane `quad_lane`'s words in the quartets: `LOW` and
/// `HIGH` in plane 0, and two of the remaining words (one in the split kernel).
#[inline(always)]
pub(super) fn quartet_offsets<F: Format>(
    quad_lane: u32,
    pitch: u32,
    slice_words: u32,
    plane_words: u32,
) -> [u32; 4] {
    let line = |line: u32| {
        // line / 3 for line < 9.
        let t = (line * 11) >> 5;
        t * slice_words + (line - 3 * t) * pitch
    };
    let (low, high) = (line(quad_lane), line(4 + quad_lane));
    if F::F16X2 {
        let plane = if quad_lane == 3 {
            0
        } else {
            quad_lane * plane_words
        };
        [low, high, line(8) + plane, 0]
    } else {
        let rest = match quad_lane {
            1 => line(4) + plane_words,
            2 => line(5) + plane_words,
            _ => line(8),
        };
        [low, high, low + plane_words, rest]
    }
}
