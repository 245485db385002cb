//! Prepared parameters: filter operands, sums, start values, and constants of the epilogue.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, math, thread, warp};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::{
    BLOCK_THREADS, BLOCK_WORDS, COMMON, COMMON_WORDS, DISTINCT_BLOCKS, FILTERS, ONES,
    OPERAND_COLUMNS, PARTIAL, PLANE_PITCH, WARPS, ZEROS,
};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FILTER, IN_CHANNELS, OUT_CHANNELS, OneLaunch3dGeometry, WIDTH,
};

use super::super::format::halves;
use super::super::output::Constants;
use super::super::survey::{self, PER_CHANNEL, PER_FILTER, SURVEYORS};
use super::{WarpgroupFormat, common};
use crate::parts::lanes::sum_of_quad;

/// A start value has two parts in K: the second is multiplied by this constant, the first by 1.
const START_UNIT: f32 = 32_768.0;

/// The most words of operands that a thread prepares.
const OWN_WORDS: usize = (DISTINCT_BLOCKS * BLOCK_WORDS).div_ceil(BLOCK_THREADS) as usize;

/// This thread's words of the filters, as operands.
#[inline(always)]
pub(super) unsafe fn operands<F: WarpgroupFormat>(weight: Global<F::Stored>) -> [u32; OWN_WORDS] {
    let mut own = [0; OWN_WORDS];
    let mut i = 0;
    while i < OWN_WORDS {
        let at = thread::thread_idx_x() + i as u32 * BLOCK_THREADS;
        // Words past the last block are not stored.
        let block = (at / BLOCK_WORDS).min(DISTINCT_BLOCKS - 1);
        own[i] = filter_word::<F>(weight, at / 4 % OPERAND_COLUMNS, block, at % 4);
        i += 1;
    }
    own
}

/// Stores the operands and the constants.
#[inline(always)]
pub(super) unsafe fn lay_out<F: WarpgroupFormat>(own: &[u32; OWN_WORDS], words: Shared<u32>) {
    let thread = thread::thread_idx_x();
    let mut i = 0;
    while i < OWN_WORDS {
        let at = thread + i as u32 * BLOCK_THREADS;
        let block = at / BLOCK_WORDS;
        if block < DISTINCT_BLOCKS {
            words.store(FILTERS + at, own[i]);
        }
        if block == FIRST_REST {
            words.store(FILTERS + at + 2 * BLOCK_WORDS, own[i]);
        }
        i += 1;
    }
    if thread < WIDTH {
        words.store(ONES + thread, F::pack(1.0, START_UNIT));
        words.store(ZEROS + thread, 0);
        words.store(PLANE_PITCH + ZEROS + thread, 0);
    }
}

/// The block of the first pair's remaining values.
pub(super) const FIRST_REST: u32 = 12;

/// The word of quad lane `quad_lane` in a column of a block.
#[inline(always)]
unsafe fn filter_word<F: WarpgroupFormat>(
    weight: Global<F::Stored>,
    column: u32,
    block: u32,
    quad_lane: u32,
) -> u32 {
    let (output, k) = (column / OUT_CHANNELS, column % OUT_CHANNELS);
    // The pair of input columns, and its part: the first column, the second column, or channel 2 of both.
    let rest = block >= FIRST_REST;
    let set = if rest { block - FIRST_REST } else { block / 6 };
    let what = if rest { quad_lane } else { block % 6 / 2 };
    let line = if rest { 8 } else { block % 2 * 4 + quad_lane };
    let value = |channel: u32, input: u32| {
        let used = (output..output + FILTER).contains(&input) && what < 3;
        // Loaded unconditionally, so that all loads are in flight together.
        let s = if used { input - output } else { 0 };
        let at = (k * IN_CHANNELS + channel) * PER_CHANNEL + line * FILTER + s;
        let value = weight.load_readonly(at as usize).to_f32();
        if used { value } else { 0.0 }
    };
    // Channels 0 and 1 of one input column, or channel 2 of both.
    let third = what == 2;
    let (low, high) = if third { (2, 2) } else { (0, 1) };
    let first = 2 * set + if third { 0 } else { what };
    F::pack(value(low, first), value(high, first + u32::from(third)))
}

/// The most elements of a filter that a lane surveys.
const SURVEYED: usize = PER_FILTER.div_ceil(SURVEYORS) as usize;

/// The elements that this thread surveys, of filter `thread / SURVEYORS`; 0 beyond its last one.
#[inline(always)]
pub(super) unsafe fn surveyed<F: WarpgroupFormat>(weight: Global<F::Stored>) -> [f32; SURVEYED] {
    let thread = thread::thread_idx_x();
    let (k, first) = (thread / SURVEYORS % OUT_CHANNELS, thread % SURVEYORS);
    let mut values = [0.0; SURVEYED];
    let mut i = 0;
    while i < SURVEYED {
        let at = first + i as u32 * SURVEYORS;
        let used = at < PER_FILTER;
        let at = k * PER_FILTER + if used { at } else { 0 };
        let value = weight.load_readonly(at as usize).to_f32();
        values[i] = if used { value } else { 0.0 };
        i += 1;
    }
    values
}

/// Finds the largest magnitude of each filter and the sums of its channels.
#[inline(always)]
pub(super) unsafe fn survey(values: &[f32; SURVEYED], floats: Shared<f32>) {
    let thread = thread::thread_idx_x();
    let (k, first) = (thread / SURVEYORS, thread % SURVEYORS);
    let (mut largest, mut sums) = (0.0, [0.0; 3]);
    let mut i = 0;
    while i < SURVEYED {
        largest = math::max_nan(largest, math::abs(values[i]));
        survey::add(&mut sums, first + i as u32 * SURVEYORS, values[i]);
        i += 1;
    }
    warp::sync_warp(warp::ALL_LANES);
    let largest = survey::largest_of_surveyors(largest);
    let sums = survey::sums_of_surveyors(sums);
    if k < OUT_CHANNELS && first == 0 {
        floats.store(common::LARGEST + k, largest);
        survey::store_sums(sums, floats, common::FILTER_SUMS + 3 * k);
    }
}

/// Stores filter `k`'s start value at the positions of K that meet the constants.
#[inline(always)]
pub(super) unsafe fn start_value<F: WarpgroupFormat>(
    k: u32,
    words: Shared<u32>,
    floats: Shared<f32>,
) {
    let mean = |c: u32| floats.load(common::MEANS + c);
    let sum = |c: u32| floats.load(common::FILTER_SUMS + 3 * k + c);
    let start = -math::fma(
        mean(2),
        sum(2),
        math::fma(mean(1), sum(1), mean(0) * sum(0)),
    );
    let bounded = |x: f32| x.clamp(-F::LARGEST, F::LARGEST);
    let [high, _] = halves::<F>(F::pack(bounded(start / START_UNIT), 0.0));
    let word = F::pack(bounded(start - high * START_UNIT), high);
    let store = |block: u32, output: u32| {
        let column = output * OUT_CHANNELS + k;
        words.store(FILTERS + block * BLOCK_WORDS + 4 * column + 3, word);
    };
    store(FIRST_REST, 0);
    store(FIRST_REST, 1);
    store(FIRST_REST + 2, 0);
    store(FIRST_REST + 2, 1);
}

/// The constants of filter `k`, from the warps' partial sums. Each of four lanes adds a quarter of them.
#[inline(always)]
pub(super) unsafe fn finish_filter<F: WarpgroupFormat>(
    k: u32,
    quarter: u32,
    words: Shared<u32>,
    g: &OneLaunch3dGeometry,
) {
    let partial = words.slice(PARTIAL, 32 * WARPS).cast::<f32>();
    let floats = words.slice(COMMON, COMMON_WORDS).cast::<f32>();
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut warp = quarter;
    while warp < WARPS {
        sum += f64::from(partial.load(warp * 32 + k));
        squares += f64::from(partial.load(warp * 32 + 16 + k));
        warp += 4;
    }
    let (sum, squares) = (sum_of_quad(sum), sum_of_quad(squares));
    let multiplier = floats.load(common::MULTIPLIER + k);
    let finite = multiplier.is_finite()
        && floats.load(common::LARGEST + k).is_finite()
        && floats.load(common::BIAS + k).is_finite();
    let constants = Constants::of_sums(g, [sum, squares], 1.0, multiplier, finite);
    if quarter == 0 {
        constants.store(floats.slice(common::CONSTANTS, 64), k);
    }
}
