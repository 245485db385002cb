//! Reductions of the values of a series.

use cuda_std::shared::Shared;
use cuda_std::warp::{self, ALL_LANES};
use cuda_std::{opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::series::{HELD, PART, PARTS};

use super::Series;

/// A number for each part of a thread's values. It is the same for all parts of one series.
pub(crate) type OfParts = [f32; PARTS];

impl<const ROWS: bool> Series<'_, ROWS> {
    /// Computes a number for each part. It is computed once if all parts are of one series.
    #[inline(always)]
    pub(crate) fn of_parts(&self, f: impl Fn(usize) -> f32) -> OfParts {
        let first = f(0);
        if opaque::to_compiler(self.g.thread_series) > 1 {
            [first, f(1)]
        } else {
            [first; PARTS]
        }
    }

    /// Reduces each part of `values`, and the parts of the same series.
    #[inline(always)]
    pub(crate) fn reduced(
        &self,
        values: [f32; HELD],
        combine: impl Fn(f32, f32) -> f32 + Copy,
    ) -> OfParts {
        let of = |p: usize| {
            let two = |i: usize| combine(values[p * PART + i], values[p * PART + i + 8]);
            let four = |i: usize| combine(two(i), two(i + 4));
            combine(combine(four(0), four(2)), combine(four(1), four(3)))
        };
        self.merged([of(0), of(1)], combine)
    }

    /// Combines the numbers of parts of the same series.
    #[inline(always)]
    pub(crate) fn merged(&self, own: OfParts, combine: impl Fn(f32, f32) -> f32) -> OfParts {
        if opaque::to_compiler(self.g.thread_series) > 1 {
            own
        } else {
            [combine(own[0], own[1]); PARTS]
        }
    }

    /// Reduces the numbers of all threads of a series by `combine`. All of these threads get the same result.
    ///
    /// # Safety
    /// All threads of the block call it together. `scratch` has an element for each thread of a block with
    /// several series, and for each lane of a warp. Nothing else uses it.
    #[inline(always)]
    pub(crate) unsafe fn together(
        &self,
        own: OfParts,
        scratch: Shared<f32>,
        combine: impl Fn(f32, f32) -> f32,
    ) -> OfParts {
        let g = self.g;
        let thread = thread::thread_idx_x();
        // Conditions are uniform over the block, so either all threads reach a barrier or none.
        if !ROWS && !g.is_of_rows() {
            let slices = g.threads;
            if slices == 1 {
                return own;
            }
            scratch.store(thread, own[0]);
            thread::sync_threads();
            // Combined by halves, like lanes. The slices are 2, 4 or 8.
            let neighbours = g.block_series;
            let first = thread & (neighbours - 1);
            let of = |slice: u32| scratch.load(first + slice * neighbours);
            let half = |slice: u32| combine(of(slice), of(slice + slices / 2));
            let quarter = |slice: u32| match slices {
                2 => half(slice),
                _ => combine(half(slice), half(slice + slices / 4)),
            };
            let all = match slices {
                8 => combine(quarter(0), quarter(1)),
                _ => quarter(0),
            };
            return [all; PARTS];
        }
        let of_lanes = |own: OfParts, lanes: u32| {
            let mut all = own;
            let mut distance = lanes / 2;
            while distance > 0 {
                opaque::not_unrolled();
                all = self.of_parts(|v| {
                    let (other, _) =
                        warp::warp_shuffle_xor(ALL_LANES, all[v], distance, WARP_THREADS);
                    combine(all[v], other)
                });
                distance /= 2;
            }
            all
        };
        let mut all = of_lanes(own, g.threads.min(WARP_THREADS));
        let warps = g.threads / WARP_THREADS;
        if warps > 1 {
            if thread.is_multiple_of(WARP_THREADS) {
                scratch.store(thread / WARP_THREADS, all[0]);
            }
            thread::sync_threads();
            all = of_lanes([scratch.load(thread & (warps - 1)); PARTS], warps);
        }
        all
    }
}
