//! The store of a warp's results: to rows in shared memory, and from there to the output.
//!
//! Values are in their final form before, so a store to the output is a load, an address, and a check that
//! the filter exists.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::WARP_FILTERS;
use launch_config::pointwise::ResidualList;

use super::super::format::Format;
use super::super::results::is_inside;
use super::results::Results;
use super::shared_rows::Rows;
use crate::parts::store::{CHUNK_WORDS, StoreEpilogue, values_of, word_of};
use crate::parts::unroll::unroll;

/// Rows of a lane in flight to the output at a time.
const ROWS_IN_FLIGHT: usize = 8;

/// Chunks whose residuals are loaded before they are needed.
const CHUNKS_AHEAD: u32 = 2;

/// The rounds in which the lanes of a warp write rows.
struct Rounds {
    /// The first pixel of the tile, and how many a lane writes of a row.
    first: u32,
    together: u32,
    lane: u32,
    limits: u32,
    /// The position of the tile in an output plane.
    of_tile: u32,
    /// Lanes along the pixels of a row.
    lanes: u32,
    /// Filters from one row of a lane to the next.
    step: u32,
    /// Rounds that differ by their filters alone.
    groups: u32,
    count: u32,
    round: u32,
}

impl Rounds {
    /// Goes on to the next round, if there is one.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        if self.round + 1 == self.count {
            return false;
        }
        self.round = opaque::to_compiler(self.round + 1);
        true
    }
}

/// [`ROWS_IN_FLIGHT`] rows of a lane.
struct LaneRows {
    /// The first row's index among the values in shared memory.
    from: u32,
    /// The index of its first value in the output.
    to: usize,
    /// The warp's filter that the first row is of.
    filter: u32,
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS> {
    /// Writes the rows to the output, from pixel `first` of the tile on: 16 bytes at a time where enough
    /// pixels are contiguous in the output, else two words of 16-bit values, one word, or one value. Applies
    /// the epilogue's list first.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier behind the stores of the rows.
    #[inline(always)]
    pub(super) unsafe fn write(&self, first: u32) {
        let g = &self.g;
        let (values, words) = (self.rows.0, self.rows.0.cast::<u32>());
        let of_word = Rows::<F::Stored>::OF_WORD;
        let neighbours = g.neighbours();
        if let Some(list) = self.output.without_norm.store.list {
            if neighbours.is_multiple_of(4 * of_word) {
                self.write_list::<4, false>(first, list);
            } else if neighbours.is_multiple_of(of_word) {
                self.write_list::<1, false>(first, list);
            } else {
                self.write_list::<1, true>(first, list);
            }
        } else if neighbours.is_multiple_of(4 * of_word) {
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

    /// The rounds in which the lanes write rows, `together` pixels of each at a time. Pixels are consecutive
    /// over the lanes.
    #[inline(always)]
    unsafe fn rounds(&self, first: u32, together: u32) -> Rounds {
        let conv = &self.g.conv;
        let pixels = Rows::<F::Stored>::PIXELS;
        // Lanes along the pixels of a row, and filters that the warp's lanes cover at a time.
        let lanes = (pixels / together).min(WARP_THREADS);
        let step = WARP_THREADS / lanes;
        let groups = WARP_FILTERS / (ROWS_IN_FLIGHT as u32 * step);
        Rounds {
            first,
            together,
            // Recomputed for each half: values derived from it would else take too many registers.
            lane: opaque::to_compiler(self.lane),
            limits: self.limits(),
            of_tile: (self.first_slice() * conv.p + self.place.p) * conv.q + self.place.q,
            lanes,
            step,
            groups,
            count: groups * (pixels / (lanes * together)),
            round: 0,
        }
    }

    /// The lane's rows in a round, if its pixels are within the output.
    #[inline(always)]
    unsafe fn rows_of(&self, rounds: &Rounds) -> Option<LaneRows> {
        let &Rounds { lane, lanes, .. } = rounds;
        let of_round = lanes * rounds.together;
        let pixel = rounds.round / rounds.groups * of_round + lane % lanes * rounds.together;
        let in_group = rounds.round % rounds.groups * ROWS_IN_FLIGHT as u32;
        let filter = in_group * rounds.step + lane / lanes;
        if !is_inside(rounds.limits, self.memory.pixels.load(rounds.first + pixel)) {
            return None;
        }
        let spatial = self.g.conv.output_pixels() as usize;
        let position = rounds.of_tile + self.memory.positions.load(rounds.first + pixel);
        Some(LaneRows {
            from: filter * Rows::<F::Stored>::PITCH + pixel,
            to: self.plane(filter) * spatial + position as usize,
            filter,
        })
    }

    /// The same with the epilogue's list: `WORDS` words of a row at a time, or, with `SINGLE`, one value.
    ///
    /// A lane applies the list to four words at a time, of one row or of several: the list's code is there
    /// once. Residuals are loaded [`CHUNKS_AHEAD`] chunks ahead.
    #[inline(always)]
    unsafe fn write_list<const WORDS: usize, const SINGLE: bool>(
        &self,
        first: u32,
        list: &ResidualList,
    ) {
        let spatial = self.g.conv.output_pixels() as usize;
        let (pitch, of_word) = (Rows::<F::Stored>::PITCH, Rows::<F::Stored>::OF_WORD);
        let (values, words) = (self.rows.0, self.rows.0.cast::<u32>());
        let together = if SINGLE { 1 } else { WORDS as u32 * of_word };
        let store = &self.output.without_norm.store;
        let adds = list.adds();
        let zero = F::Stored::from_f32(0.0);
        let rows_together = (CHUNK_WORDS / WORDS) as u32;
        let chunks = ROWS_IN_FLIGHT as u32 / rows_together;
        let mut rounds = self.rounds(first, together);
        loop {
            opaque::not_unrolled();
            if let Some(rows) = self.rows_of(&rounds) {
                let step = rounds.step;
                let residual_of = |chunk: u32| {
                    let mut residual = [0; CHUNK_WORDS];
                    if !adds || chunk >= chunks {
                        return residual;
                    }
                    unroll!(4, |k| {
                        let row = (chunk * rows_together + k as u32) * step;
                        if k < CHUNK_WORDS / WORDS && rows.filter + row < self.filters {
                            let at = store
                                .residual
                                .wrapping_add(rows.to + row as usize * spatial);
                            if SINGLE {
                                residual[k] = word_of([Global::new(at, 1).load(0), zero]);
                            } else {
                                let of_row = Global::new(at.cast(), WORDS).load_vec::<WORDS>(0);
                                unroll!(4, |word| {
                                    if word < WORDS {
                                        residual[(k * WORDS + word) % CHUNK_WORDS] =
                                            of_row[word % WORDS];
                                    }
                                });
                            }
                        }
                    });
                    residual
                };
                let mut ahead = [residual_of(0), residual_of(1)];
                let mut chunk = 0;
                loop {
                    opaque::not_unrolled();
                    let mut results = [0; CHUNK_WORDS];
                    let first_row = chunk * rows_together * step;
                    unroll!(4, |k| {
                        let from = rows.from + (first_row + k as u32 * step) * pitch;
                        if SINGLE {
                            results[k] = word_of([values.load(from), zero]);
                        } else if k < CHUNK_WORDS / WORDS {
                            let of_row = words.load_vec::<WORDS>(from / of_word);
                            unroll!(4, |word| {
                                if word < WORDS {
                                    results[(k * WORDS + word) % CHUNK_WORDS] =
                                        of_row[word % WORDS];
                                }
                            });
                        }
                    });
                    let residual = ahead[0];
                    ahead = [ahead[1], residual_of(chunk + CHUNKS_AHEAD)];
                    let results = StoreEpilogue::<F::Stored>::of_words(list, results, residual);
                    unroll!(4, |k| {
                        let row = first_row + k as u32 * step;
                        if k < CHUNK_WORDS / WORDS && rows.filter + row < self.filters {
                            let to = self.output.y.wrapping_add(rows.to + row as usize * spatial);
                            if SINGLE {
                                let [value, _] = values_of::<F::Stored>(results[k]);
                                GlobalMut::new(to, 1).store(0, value);
                            } else {
                                let mut of_row = [0; WORDS];
                                unroll!(4, |word| {
                                    if word < WORDS {
                                        of_row[word % WORDS] =
                                            results[(k * WORDS + word) % CHUNK_WORDS];
                                    }
                                });
                                GlobalMut::<u32>::new(to.cast(), WORDS).store_vec(0, of_row);
                            }
                        }
                    });
                    if chunk + 1 == chunks {
                        break;
                    }
                    chunk = opaque::to_compiler(chunk + 1);
                }
            }
            if !rounds.advance() {
                break;
            }
        }
    }
}
const _: () = assert!(ROWS_IN_FLIGHT == 8 && WARP_FILTERS == 2 * ROWS_IN_FLIGHT as u32);
