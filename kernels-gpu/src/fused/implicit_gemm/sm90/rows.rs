//! Where a warp's results go: rows in shared memory, and from there the output.
//!
//! Nothing is computed of them on this way, so that a store is a load, a sum of addresses, and a question
//! whether there is such a filter.

use core::mem::size_of;

use cuda_std::global::GlobalMut;
use cuda_std::shared::Shared;
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{WARP_FILTERS, WRITTEN_BYTES, WRITTEN_PADDING};

use super::super::format::Format;
use super::super::results::is_inside;
use super::results::Results;
use crate::parts::unroll::unroll;

/// Rows of a lane that are on their way to the output at a time.
const TOGETHER: usize = 8;

/// Rows of results of type `T`, of one filter each.
#[derive(Clone, Copy)]
pub(super) struct Rows<T>(Shared<T>);

impl<T: Storage> Rows<T> {
    /// Pixels of a row.
    pub(super) const PIXELS: u32 = WRITTEN_BYTES / size_of::<T>() as u32;

    /// Values from one row to the next.
    const PITCH: u32 = Self::PIXELS + WRITTEN_PADDING;

    /// Values of a word.
    const OF_WORD: u32 = 4 / size_of::<T>() as u32;

    /// Those of a warp, of which these are the words.
    #[inline(always)]
    pub(super) fn of(words: Shared<f32>) -> Self {
        Self(words.cast())
    }

    /// The places of what lane `lane` has of them: of each octet of pixels two, of two rows.
    #[inline(always)]
    pub(super) fn of_lane(&self, lane: u32) -> OfLane<T> {
        let first = lane / 4 * Self::PITCH + 2 * (lane % 4);
        OfLane(self.0.slice(first, self.0.len() - first))
    }
}

/// Places of the results that a lane has.
pub(super) struct OfLane<T>(Shared<T>);

impl<T: Storage> OfLane<T> {
    /// Stores the two values of octet `n`, of the lane's row `i`.
    ///
    /// # Safety
    /// `n < Rows::<T>::PIXELS / 8`, `i < 2`, and nobody reads what was there.
    #[inline(always)]
    pub(super) unsafe fn store(&self, i: usize, n: usize, values: [T; 2]) {
        let row = 8 * i as u32 * Rows::<T>::PITCH;
        self.0.store_vec(row + 8 * n as u32, values);
    }
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS> {
    /// Writes the rows, of pixels from `first` of the tile on: 16 bytes at a time where these are neighbours
    /// in the output, else two words, where a word is two values, or a word or a value.
    ///
    /// # Safety
    /// All lanes of the warp call it, behind a barrier of the warp since the rows were stored.
    #[inline(always)]
    pub(super) unsafe fn write(&self, first: u32) {
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

    /// The same, `together` pixels at a time, of which lanes have consecutive ones. `load` counts in elements
    /// of `of_element` values.
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
        // Computed anew for each half, or what depends on it would take more registers than there are.
        let lane = opaque::to_compiler(self.lane);
        let limits = self.limits();
        let of_tile = (self.first_slice() * conv.p + self.place.p) * conv.q + self.place.q;
        let (pixels, pitch) = (Rows::<F::Stored>::PIXELS, Rows::<F::Stored>::PITCH);
        // Lanes side by side along the pixels, and how many filters they have at a time.
        let lanes = (pixels / together).min(WARP_THREADS);
        let step = WARP_THREADS / lanes;
        // In a round each lane has eight rows of its pixels.
        let (of_round, groups) = (lanes * together, WARP_FILTERS / (TOGETHER as u32 * step));
        let rounds = groups * (pixels / of_round);
        let mut round = 0;
        loop {
            opaque::not_unrolled();
            let pixel = round / groups * of_round + lane % lanes * together;
            let filter = round % groups * TOGETHER as u32 * step + lane / lanes;
            if is_inside(limits, self.memory.pixels.load(first + pixel)) {
                let position = of_tile + self.memory.positions.load(first + pixel);
                let to = self.plane(filter) * spatial + position as usize;
                let mut to = self.output.y.wrapping_add(to);
                let from = (filter * pitch + pixel) / of_element;
                // All loads are on their way before the first store waits for one.
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
const _: () = assert!(TOGETHER == 8 && WARP_FILTERS == 2 * TOGETHER as u32);
