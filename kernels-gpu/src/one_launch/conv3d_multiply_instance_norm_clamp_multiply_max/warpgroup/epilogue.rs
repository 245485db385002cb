//! The epilogues of the convolution: statistics, or the result.

use core::marker::PhantomData;

use cuda_std::global::GlobalMut;
use cuda_std::shared::Shared;
use cuda_std::{math, warp};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::TILE_ROWS as WARP_ROWS;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::{
    PAIRS, RESULT_PITCH, STRIP_PAIRS,
};

use super::super::item::exchange;
use super::super::output::largest_lower;
use super::WarpgroupFormat;
use super::walk::{Epilogue, Tile, Which};
use crate::parts::unroll::unroll;

/// Sums and sums of squares of the lane's filters.
pub(super) struct PowerSums {
    sums: [f32; 4],
    squares: [f32; 4],
}

impl PowerSums {
    /// Sums of no items.
    pub(super) const NONE: Self = Self {
        sums: [0.0; 4],
        squares: [0.0; 4],
    };

    /// Adds the sums of an item.
    ///
    /// Sums are added item by item, not element by element across items, so that blocks of a cluster can have
    /// an item each and get the same bits.
    #[inline(always)]
    pub(super) fn add(&mut self, item: &Self) {
        unroll!(4, |i| {
            self.sums[i] += item.sums[i];
            self.squares[i] += item.squares[i];
        });
    }

    /// Stores the lane's sums from word `at` on, for another warp to load after the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store(&self, floats: Shared<f32>, at: u32) {
        let at = at + warp::lane_id() * 4;
        floats.store_vec(at, self.sums);
        floats.store_vec(at + 4 * WARP_THREADS, self.squares);
    }

    /// Loads the sums that a lane of another warp stored.
    #[inline(always)]
    pub(super) unsafe fn load(floats: Shared<f32>, at: u32) -> Self {
        let at = at + warp::lane_id() * 4;
        Self {
            sums: floats.load_vec(at),
            squares: floats.load_vec(at + 4 * WARP_THREADS),
        }
    }

    /// One total of the warp: the sum (in quads 0 to 3) or the sum of squares (4 to 7) of the quad lane's
    /// filter `quad % 4`.
    #[inline(always)]
    pub(super) unsafe fn total(&self) -> f32 {
        let lane = warp::lane_id();
        let keep = |bit: u32, low: f32, high: f32| {
            let [kept, received] = exchange(lane, bit, low, high);
            kept + received
        };
        let (a, b) = (&self.sums, &self.squares);
        let four = [
            keep(16, a[0], b[0]),
            keep(16, a[1], b[1]),
            keep(16, a[2], b[2]),
            keep(16, a[3], b[3]),
        ];
        let two = [keep(8, four[0], four[2]), keep(8, four[1], four[3])];
        keep(4, two[0], two[1])
    }
}

impl Epilogue for PowerSums {
    #[inline(always)]
    unsafe fn pair(&mut self, _which: Which, sums: [f32; 16]) {
        unroll!(2, |column| {
            unroll!(2, |row| {
                unroll!(4, |filter| {
                    let value = sums[8 * column + 4 * (filter / 2) + 2 * row + filter % 2];
                    self.sums[filter] += value;
                    self.squares[filter] = math::fma(value, value, self.squares[filter]);
                });
            });
        });
    }
}

/// The maximum over all filters, in words of two columns.
pub(super) struct Maximum<F: WarpgroupFormat> {
    /// The warp's results in shared memory.
    results: Shared<u32>,
    /// Index of this lane's results: its row, and the one of two words that it keeps.
    slot: u32,
    factor: [f32; 4],
    added: [f32; 4],
    /// The upper bounds, of two filters in each word.
    upper: [u32; 2],
    /// The largest lower bound of all filters, in both halves.
    lower: u32,
    /// The result of the previous pair of columns, for one row.
    pair: u32,
    format: PhantomData<F>,
}

impl<F: WarpgroupFormat> Maximum<F> {
    /// Loads the constants of this lane's filters from `table`, which is
    /// `[factor, added, upper, lower][filter]`.
    #[inline(always)]
    pub(super) unsafe fn new(results: Shared<u32>, table: Shared<f32>) -> Self {
        let lane = warp::lane_id();
        let k = 2 * (lane % 4);
        let four = |of: u32| {
            let [[a, b], [c, d]] = [table.load_vec(of + k), table.load_vec(of + k + 8)];
            [a, b, c, d]
        };
        let [a, b, c, d] = four(32);
        let lower = largest_lower(table);
        Self {
            results,
            slot: (lane / 4 + 8 * (lane % 2)) * RESULT_PITCH + lane / 2 % 2,
            factor: four(0),
            added: four(16),
            upper: [F::pack(a, b), F::pack(c, d)],
            lower: F::pack(lower, lower),
            pair: 0,
            format: PhantomData,
        }
    }

    /// Writes the warp's results, for the existing rows of the tile.
    ///
    /// Lower bounds are below the upper ones, so the largest of them can be applied here, once for all
    /// filters.
    #[inline(always)]
    pub(super) unsafe fn write(&self, y: GlobalMut<u32>, tile: &Tile, out_rows: u32) {
        const _: () = assert!(STRIP_PAIRS == 8);
        warp::sync_warp(warp::ALL_LANES);
        let lane = warp::lane_id();
        let pair = lane % STRIP_PAIRS;
        let mut row = lane / STRIP_PAIRS;
        while row < WARP_ROWS {
            if tile.first_row + row < out_rows && tile.first_pair + pair < tile.end {
                let result = self.results.load(row * RESULT_PITCH + pair);
                let at = (tile.first_row + row) * PAIRS + tile.first_pair + pair;
                y.store(at as usize, F::max(result, self.lower));
            }
            row += WARP_THREADS / STRIP_PAIRS;
        }
        warp::sync_warp(warp::ALL_LANES);
    }

    /// As [`exchange`]; returns the larger of the kept and the received word.
    #[inline(always)]
    unsafe fn keep(bit: u32, low: u32, high: u32) -> u32 {
        let [kept, received] = exchange(
            warp::lane_id(),
            bit,
            f32::from_bits(low),
            f32::from_bits(high),
        );
        F::max(kept.to_bits(), received.to_bits())
    }
}

impl<F: WarpgroupFormat> Epilogue for Maximum<F> {
    /// Rounds to 16 bits right after the channel map. The remaining operations only select values, and
    /// rounding is monotonic.
    #[inline(always)]
    unsafe fn pair(&mut self, which: Which, sums: [f32; 16]) {
        // Two filters for each of two rows.
        let column = |first: usize| {
            let two = |i: usize, k: usize| {
                let value = |i: usize| {
                    let k = k + i % 2;
                    math::fma(sums[first + i], self.factor[k], self.added[k])
                };
                F::min(F::pack(value(i), value(i + 1)), self.upper[k / 2])
            };
            [F::max(two(0, 0), two(4, 2)), F::max(two(2, 0), two(6, 2))]
        };
        let (before, now) = (column(0), column(8));
        let columns = |before: u32, now: u32| {
            let low = (before & 0xffff) | (now << 16);
            let high = (before >> 16) | (now & 0xffff_0000);
            F::max(low, high)
        };
        let word = Self::keep(1, columns(before[0], now[0]), columns(before[1], now[1]));
        match which {
            Which::First => self.pair = word,
            Which::Second(pair) => {
                let word = Self::keep(2, self.pair, word);
                self.results.store(self.slot + pair, word);
            }
            Which::Last(pair) => {
                let word = F::max(word, warp::warp_shuffle_xor(warp::ALL_LANES, word, 2, 32).0);
                if warp::lane_id() & 2 == 0 {
                    self.results.store(self.slot + pair, word);
                }
            }
        }
    }
}
