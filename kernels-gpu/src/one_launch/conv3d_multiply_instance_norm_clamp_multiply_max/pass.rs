//! The first pass: the power sums of each filter and their statistics, by a single block or by the blocks of
//! a cluster.
//!
//! # One block
//! Items go to the warps in turn, and each warp adds the power sums of its items in their order. Rows that
//! the next rounds need arrive during a round.
//!
//! # A cluster
//! A block has consecutive items, and so needs few rows beyond its share of the sample. It loads all of them
//! before it begins. The power sums of each item are stored separately in shared memory. After the cluster's
//! barrier, each block adds those of all items in the order of a single block, so the sums are bit-identical.
//! All blocks also get the largest magnitude of the whole sample, so they make the same decision whether to
//! repeat the pass.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{cluster, opaque, thread, warp};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    MOST_WARP_ITEMS, OneLaunch3dGeometry, POWER_SUM_WORDS, SHARE_WORDS, STAGING_ROWS, WARPS,
};

use super::common;
use super::fill::{Centre, Filler};
use super::format::Format;
use super::item::{Operands, PowerSums, convolve};
use super::output::Constants;
use super::parameters::FilterTensors;
use crate::parts::unroll::unroll;

/// The pass of a block. Other threads may read the power sums of `warp` after the next barrier.
pub(super) struct Pass<'a, F: Format> {
    /// The loader of the sample.
    pub(super) filler: Filler<'a, F>,
    /// The common area.
    pub(super) words: Shared<u32>,
    /// The warp's number.
    pub(super) warp: u32,
}

impl<F: Format> Pass<'_, F> {
    /// The power sums of the warps after [`Self::alone`].
    #[inline(always)]
    pub(super) fn partial(&self, blocks: u32) -> Shared<f32> {
        let at = if blocks == 1 { 0 } else { SHARE_WORDS };
        let staging = self.filler.staging.slice(at, WARPS * POWER_SUM_WORDS);
        staging.cast()
    }

    /// Computes all items of the sample. Rows before `ready` are loaded.
    #[inline(always)]
    pub(super) unsafe fn alone(&self, operands: Operands<'_>, mut ready: u32) {
        let (filler, floats) = (&self.filler, self.words.cast::<f32>());
        let items = operands.g.items();
        let mut power_sums = PowerSums::new();
        let mut round = 0;
        while round < items {
            let needed = operands.g.rows_needed((round + WARPS).min(items));
            while ready < needed {
                filler.start_staging(ready);
                let largest = filler.finish_staging(ready, Centre::load(floats));
                self.keep_largest(largest);
                ready += STAGING_ROWS;
                thread::sync_threads();
            }
            // Past the last row, this starts no copies.
            filler.start_staging(ready);
            if round + self.warp < items {
                convolve::<F, _>(round + self.warp, operands, &mut power_sums);
            }
            let largest = filler.finish_staging(ready, Centre::load(floats));
            self.keep_largest(largest);
            ready += STAGING_ROWS;
            thread::sync_threads();
            round += WARPS;
        }
        self.leave(warp::lane_id(), power_sums.total, 1);
    }

    /// Computes the block's share of the sample, then collects the shares of the other blocks of the cluster.
    ///
    /// It arrives at the cluster's barrier once more than it waits: the other blocks may read this block's
    /// memory until [`cluster::wait_all`].
    #[inline(always)]
    pub(super) unsafe fn shared<const BLOCKS: u32>(
        &self,
        operands: Operands<'_>,
        x: *const F::Stored,
    ) {
        let (filler, floats) = (&self.filler, self.words.cast::<f32>());
        let [first_row, end_row] = self.words.load_vec(common::SHARE + 2);
        // Recomputed here: no register is free to keep it.
        let block = opaque::uniform(thread::block_idx_x());
        let words_of = |elements: usize| elements * size_of::<F::Stored>() / 4;
        let sample = Global::new(x.cast::<u32>(), words_of(operands.g.input_elements())).slice(
            words_of(operands.g.sample_elements()) * (block / BLOCKS) as usize,
            words_of(operands.g.sample_elements()),
        );
        let largest = filler.convert_rows(sample, first_row, end_row, Centre::load(floats));
        self.keep_largest(largest);
        thread::sync_threads();

        let lane = warp::lane_id();
        let of_items = filler.staging.slice(0, SHARE_WORDS).cast::<f32>();
        // Loaded for each item: no register is free to keep it.
        let share = || self.words.load_vec::<2>(common::SHARE);
        let mut item = share()[0] + self.warp;
        while item < share()[1] {
            let mut power_sums = PowerSums::new();
            convolve::<F, _>(item, operands, &mut power_sums);
            let [first, _] = share();
            of_items.store((item - first) * POWER_SUM_WORDS + lane, power_sums.total);
            item += WARPS;
        }
        cluster::sync();

        let [each, items] = self.words.load_vec(common::ITEMS);
        // It is never 0, but the compiler does not know that, and a division would have a panic path.
        let each = each.max(1);
        let mut power_sums = [0.0; MOST_WARP_ITEMS as usize];
        const _: () = assert!(MOST_WARP_ITEMS == 9);
        // All loads are issued before the first addition.
        unroll!(9, |i| {
            let item = (self.warp + i as u32 * WARPS).min(items - 1);
            let rank = item / each;
            let at = (item - rank * each) * POWER_SUM_WORDS + lane;
            power_sums[i] = cluster::load(of_items, at, rank);
        });
        let mut total = 0.0;
        unroll!(9, |i| {
            if self.warp + i as u32 * WARPS < items {
                total += power_sums[i];
            }
        });
        // The value stays the same: each lane reads its own.
        let (lane, _) = warp::warp_shuffle_idx(warp::ALL_LANES, lane, lane, 32);
        self.leave(lane, total, BLOCKS);

        let of_warp = common::LARGEST + lane.min(WARPS - 1);
        let seen = cluster::load(self.words, of_warp, self.warp % BLOCKS);
        let seen = warp::warp_reduce_max(warp::ALL_LANES, seen);
        if lane == 0 {
            self.words.store(common::LARGEST_OF_ALL + self.warp, seen);
        }
        cluster::arrive();
    }

    /// Stores the warp's power sums in [`Self::partial`].
    #[inline(always)]
    unsafe fn leave(&self, lane: u32, total: f32, blocks: u32) {
        let filter = lane / 4 % 4;
        let k = filter / 2 * 8 + 2 * (lane % 4) + filter % 2;
        let at = self.warp * POWER_SUM_WORDS + lane / 16 * 16 + k;
        self.partial(blocks).store(at, total);
    }

    /// Updates the warp's largest magnitude with `largest` of each lane. It is in shared memory, because
    /// registers are scarce during the convolution.
    #[inline(always)]
    unsafe fn keep_largest(&self, largest: f32) {
        if F::CENTRED {
            warp::sync_warp(warp::ALL_LANES);
            let of_warp = warp::warp_reduce_max(warp::ALL_LANES, largest.to_bits());
            if warp::lane_id() == 0 {
                let slot = common::LARGEST + self.warp;
                self.words.store(slot, self.words.load(slot).max(of_warp));
            }
        }
    }
}

/// The largest of all warps' magnitudes from word `at` on. Compared as bits, NaN is the largest.
#[inline(always)]
pub(super) unsafe fn largest_of_warps(words: Shared<u32>, at: u32) -> f32 {
    let [a, b, c] = [
        words.load_vec::<4>(at),
        words.load_vec::<4>(at + 4),
        words.load_vec::<4>(at + 8),
    ];
    let four = |i: usize| a[i].max(b[i]).max(c[i]);
    f32::from_bits(four(0).max(four(1)).max(four(2)).max(four(3)))
}
const _: () = assert!(WARPS == 12);

/// The constants of filter `k`, from the warps' partial sums in their order.
#[inline(always)]
pub(super) unsafe fn finish_filter<F: Format>(
    k: u32,
    parameters: &FilterTensors<'_, F>,
    partial: Shared<f32>,
    floats: Shared<f32>,
    scale: f32,
    g: &OneLaunch3dGeometry,
) {
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut warp = 0;
    while warp < WARPS {
        sum += f64::from(partial.load(warp * 32 + k));
        squares += f64::from(partial.load(warp * 32 + 16 + k));
        warp += 1;
    }
    let (multiplier, filter_scale, finite) = parameters.of_filter(k);
    let scale = if F::CENTRED {
        f64::from(scale) * f64::from(filter_scale)
    } else {
        1.0
    };
    let constants = Constants::of_sums(g, [sum, squares], scale, multiplier, finite);
    constants.store(floats.slice(common::CONSTANTS, 64), k);
}
