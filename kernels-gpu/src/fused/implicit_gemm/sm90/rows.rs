//! The store of a warp's results: to rows in shared memory, and from there to the output.
//!
//! Values are in their final form before, so a store to the output is a load, an address, and a check that
//! the filter exists.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::WARP_FILTERS;

use super::super::format::Format;
use super::super::results::is_inside;
use super::TileEpilogue;
use super::results::{HALF_OCTETS, Results};
use super::shared_rows::Rows;
use crate::parts::unroll::unroll;

/// Rows of a lane in flight to the output at a time.
const ROWS_IN_FLIGHT: usize = 8;

impl<F: Format, const SUMS: usize, E: TileEpilogue> Results<'_, F, SUMS, E> {
    /// Stores staged tile `number` of a half, whose pixels are those from `first` on, to rows in shared
    /// memory, or to windows of the output where the tile is written as a run.
    ///
    /// # Safety
    /// As of [`TileEpilogue::stage`].
    #[inline(always)]
    pub(super) unsafe fn stage_rows(&self, sums: &mut [f32; SUMS], number: usize, first: u32) {
        if self.writes_runs() {
            self.store_run(sums, (number, first));
        } else {
            self.store(sums, number);
        }
    }

    /// Writes these rows, or windows.
    ///
    /// # Safety
    /// As of [`TileEpilogue::write`].
    #[inline(always)]
    pub(super) unsafe fn write_rows(&self, first: u32) {
        if self.writes_runs() {
            // Recomputed: it would else take registers beside the accumulators.
            self.write_run(&self.run(opaque::to_compiler(first)));
        } else {
            self.write(first);
        }
    }

    /// Stores staged tile `staged_tile` of a half to shared memory, and rounds its accumulators to the
    /// storage type, so that moments are those of the values that the norm will read.
    #[inline(always)]
    unsafe fn store(&self, sums: &mut [f32; SUMS], staged_tile: usize) {
        let octets = HALF_OCTETS as usize / Self::STAGED_TILES;
        let places = self.rows.of_lane(self.lane);
        unroll!(16, |n| {
            if n < octets {
                unroll!(2, |i| {
                    let at = 4 * (octets * staged_tile + n) + 2 * i;
                    let values = F::Stored::from_f32_pair([sums[at], sums[at + 1]]);
                    places.store(i, n, values);
                    [sums[at], sums[at + 1]] = F::Stored::to_f32_pair(values);
                });
            }
        });
    }

    /// Writes the rows to the output, from pixel `first` of the tile on: 16 bytes at a time where enough
    /// pixels are contiguous in the output, else two words of 16-bit values, one word, or one value.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier behind the stores of the rows.
    #[inline(always)]
    unsafe fn write(&self, first: u32) {
        let g = &self.g;
        let (values, words) = (self.rows.0, self.rows.0.cast::<u32>());
        let of_word = Rows::<F::Stored>::OF_WORD;
        let neighbours = g.neighbours();
        if neighbours.is_multiple_of(4 * of_word) {
            self.write_by(
                first,
                [4 * of_word, of_word],
                |from| words.load_vec::<4>(from),
                |to, four| GlobalMut::<u32>::new(to.cast(), 4).store_vec(0, four),
            );
        } else if of_word > 1 && neighbours.is_multiple_of(2 * of_word) {
            self.write_by(
                first,
                [2 * of_word, of_word],
                |from| words.load_vec::<2>(from),
                |to, two| GlobalMut::<u32>::new(to.cast(), 2).store_vec(0, two),
            );
        } else if neighbours.is_multiple_of(of_word) {
            self.write_by(
                first,
                [of_word; 2],
                |from| words.load(from),
                |to, word| GlobalMut::<u32>::new(to.cast(), 1).store(0, word),
            );
        } else {
            self.write_by(
                first,
                [1; 2],
                |from| values.load(from),
                |to, value| GlobalMut::new(to, 1).store(0, value),
            );
        }
    }

    /// Writes the rows `together` pixels at a time, which are consecutive over the lanes. `load` takes an
    /// index of elements of `of_element` values.
    #[inline(always)]
    unsafe fn write_by<V: Copy>(
        &self,
        first: u32,
        [together, of_element]: [u32; 2],
        load: impl Fn(u32) -> V,
        store: impl Fn(*mut F::Stored, V),
    ) {
        let conv = &self.g.conv;
        let spatial = conv.output_pixels() as usize;
        // Recomputed for each half: values derived from it would else take too many registers.
        let lane = opaque::to_compiler(self.lane);
        let limits = self.limits();
        let of_tile = (self.first_slice() * conv.p + self.place.p) * conv.q + self.place.q;
        let (pixels, pitch) = (Rows::<F::Stored>::PIXELS, Rows::<F::Stored>::PITCH);
        // Lanes along the pixels of a row, and filters that the warp's lanes cover at a time.
        let lanes = (pixels / together).min(WARP_THREADS);
        let step = WARP_THREADS / lanes;
        // In a round each lane writes eight rows of its pixels.
        let (of_round, groups) = (
            lanes * together,
            WARP_FILTERS / (ROWS_IN_FLIGHT as u32 * step),
        );
        let rounds = groups * (pixels / of_round);
        let mut round = 0;
        loop {
            opaque::not_unrolled();
            let pixel = round / groups * of_round + lane % lanes * together;
            let filter = round % groups * ROWS_IN_FLIGHT as u32 * step + lane / lanes;
            if is_inside(limits, self.memory.pixels.load(first + pixel)) {
                let position = of_tile + self.memory.positions.load(first + pixel);
                let to = self.plane(filter) * spatial + position as usize;
                let mut to = self.output.y.wrapping_add(to);
                let from = (filter * pitch + pixel) / of_element;
                // All loads are issued before the first store waits for one.
                let of = |i: u32| load(from + i * (step * pitch / of_element));
                let rows = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
                unroll!(8, |i| {
                    if filter + i as u32 * step < self.filters {
                        store(to, rows[i]);
                    }
                    to = to.wrapping_add(step as usize * spatial);
                });
            }
            if round + 1 == rounds {
                break;
            }
            round = opaque::to_compiler(round + 1);
        }
    }
}
const _: () = assert!(ROWS_IN_FLIGHT == 8 && WARP_FILTERS == 2 * ROWS_IN_FLIGHT as u32);
