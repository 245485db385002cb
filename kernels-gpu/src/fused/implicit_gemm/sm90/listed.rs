//! The list of pointwise functions for results without a norm.

use cuda_std::shared::Shared;
use cuda_std::{Storage, opaque, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::WRITTEN_WORDS;

use super::super::format::Format;
use super::TileEpilogue;
use super::results::{ROW_FILTERS, Results, filter_shift};
use crate::parts::pointwise::{Keeps, apply_with};
use crate::parts::unroll::unroll;

impl<F: Format, const SUMS: usize, E: TileEpilogue> Results<'_, F, SUMS, E> {
    /// Rounds the accumulators of a half of the tile to the storage type, and applies the list to them.
    #[inline(always)]
    pub(super) unsafe fn list(&self, sums: &mut [f32; SUMS]) {
        let without_norm = &self.output.without_norm;
        let (behind, first, lane) = (without_norm.behind, self.channel, self.lane);
        let shift = filter_shift::<E>(&self.g);
        let channels = self.g.conv.output_channels() >> shift;
        // Pairs of values belong to the lane's two filters in turn.
        let of_channels = move || {
            let of_row = |i: u32| {
                let channels = opaque::to_compiler(channels);
                let filter = first + opaque::to_compiler(lane) / 4 + ROW_FILTERS * i;
                let channel = filter >> shift;
                // Results of other filters are not written.
                behind.of_channel(channel.min(channels - 1) as usize, channels as usize)
            };
            let [a, b] = [of_row(0), of_row(1)];
            [a, a, b, b, a, a, b, b, a, a, b, b, a, a, b, b]
        };
        // The list's code is written out for every value, so the loop takes a quarter at a time and moves it
        // to the end.
        let mut quarter = 0;
        while quarter < 4 {
            opaque::not_unrolled();
            let mut values = [0.0; 16];
            unroll!(8, |pair| {
                let rounded = F::Stored::from_f32_pair([sums[2 * pair], sums[2 * pair + 1]]);
                [values[2 * pair], values[2 * pair + 1]] = F::Stored::to_f32_pair(rounded);
            });
            let (list, of_channels) = (without_norm.list, Some(of_channels));
            let keeps = InRows(self.rows.0.cast().slice(lane, SLOTS));
            let values = apply_with::<F::Accuracy, 16>(list, values, None, of_channels, keeps);
            unroll!(3, |q| {
                unroll!(16, |i| {
                    sums[16 * q + i] = sums[16 * (q + 1) + i];
                });
            });
            unroll!(16, |i| {
                sums[48 + i] = values[i];
            });
            quarter = opaque::to_compiler(quarter + 1);
        }
    }
}

/// Words of shared memory from a lane's first kept value to its last.
const SLOTS: u32 = 15 * WARP_THREADS + 1;
const _: () = assert!(SLOTS + WARP_THREADS <= WRITTEN_WORDS);

/// Keeps a lane's values in the warp's rows in shared memory, which are free while a list is applied. Beside
/// the accumulators of a whole tile there are no registers for them.
struct InRows(Shared<f32>);

impl Keeps<16> for InRows {
    #[inline(always)]
    fn keep(&mut self, values: [f32; 16]) {
        // SAFETY: all lanes are at the same step of the list. No lane still reads the rows of the previous
        // staged tile, and each lane has words of its own.
        unsafe {
            warp::sync_warp(warp::ALL_LANES);
            unroll!(16, |i| {
                self.0.store(i as u32 * WARP_THREADS, values[i]);
            });
        }
    }

    #[inline(always)]
    fn kept(&self) -> Option<[f32; 16]> {
        let mut values = [0.0; 16];
        unroll!(16, |i| {
            // SAFETY: the lane's own words.
            values[i] = unsafe { self.0.load(i as u32 * WARP_THREADS) };
        });
        Some(values)
    }
}
