//! The store of a warp's results where neighbouring filters are neighbouring columns of the output.
//!
//! A row of results in shared memory has the columns of one channel: those that its filters make of each
//! pixel side by side. Rows of the output are whole vectors of 16 bytes, which lanes copy.

use core::mem::size_of;

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, WARP_FILTERS, WRITTEN_WORDS};
use launch_config::implicit_gemm::{K_VECTOR_BYTES, PixelShuffle};

use super::super::format::Format;
use super::super::results::is_inside;
use super::super::tables::from_word;
use super::TileEpilogue;
use super::results::Results;
use super::shared_rows::Rows;
use crate::parts::unroll::unroll;

/// Words of shared memory for each filter of a row.
const FILTER_WORDS: u32 = WRITTEN_WORDS / WARP_FILTERS;

/// Rows that a lane has in flight to the output at a time.
const ROWS_IN_FLIGHT: usize = 4;

impl<F: Format, const SUMS: usize, E: TileEpilogue> Results<'_, F, SUMS, E> {
    /// Whether filters become columns.
    #[inline(always)]
    pub(super) fn is_shuffled(&self) -> bool {
        !E::HAS_NORM && !E::IS_NHWC && self.g.shuffle.is_present()
    }

    /// The shuffle. Recomputed each time: what depends on it alone would else take registers during the
    /// mainloop.
    #[inline(always)]
    fn shuffle(&self) -> PixelShuffle {
        let shuffle = &self.g.shuffle;
        PixelShuffle {
            shift: opaque::to_compiler(shuffle.shift),
            plane: opaque::to_compiler(shuffle.plane),
            ..*shuffle
        }
    }

    /// Stores staged tile `staged_tile` of a half to rows of channels in shared memory.
    #[inline(always)]
    pub(super) unsafe fn store_shuffled(&self, sums: &[f32; SUMS], staged_tile: usize) {
        let octets = HALF_PIXELS as usize / 8 / Self::STAGED_TILES;
        let lane = opaque::to_compiler(self.lane);
        let shuffle = self.shuffle();
        let row = |i: u32| {
            let filter = lane / 4 + 8 * i;
            let row = (filter >> shuffle.shift) * (FILTER_WORDS * Rows::<F::Stored>::OF_WORD);
            let column = 2 * (lane % 4);
            ((row + column) << shuffle.shift) + shuffle.phase(filter)
        };
        // Moved on from octet to octet: the places of all of them would take registers beside the
        // accumulators.
        let mut places = [row(0), row(1)];
        let next = opaque::to_compiler(1 << shuffle.shift);
        unroll!(16, |n| {
            if n < octets {
                unroll!(2, |i| {
                    let at = 4 * (octets * staged_tile + n) + 2 * i;
                    let values = F::Stored::from_f32_pair([sums[at], sums[at + 1]]);
                    self.rows.0.store(places[i], values[0]);
                    self.rows.0.store(places[i] + next, values[1]);
                    places[i] = opaque::to_compiler(places[i] + 8 * next);
                });
            }
        });
    }

    /// Writes the rows to the output, from pixel `first` of the tile on.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier behind the stores of the rows.
    #[inline(always)]
    pub(super) unsafe fn write_shuffled(&self, first: u32) {
        let (g, place, shuffle) = (&self.g, self.place, self.shuffle());
        let of_vector = K_VECTOR_BYTES / size_of::<F::Stored>() as u32;
        let of_output = (g.conv.output_channels() >> shuffle.shift) as usize;
        let channel = place.sample as usize * of_output;
        let channel = channel + (self.channel >> shuffle.shift) as usize;
        let plane = shuffle.plane as usize;
        let channels = self.filters >> shuffle.shift;
        let row_words = FILTER_WORDS << shuffle.shift;
        let words = self.rows.0.cast::<u32>();
        // The vectors of a row are one for each lane, or several.
        let vectors = (Rows::<F::Stored>::PIXELS / of_vector) << shuffle.shift;
        let mut vector = opaque::to_compiler(self.lane);
        while vector < vectors {
            opaque::not_unrolled();
            let pixel = first + ((vector * of_vector) >> shuffle.shift);
            let word = self.memory.pixels.load(pixel);
            if is_inside(self.limits(), word) {
                let [d, h, w] = from_word(word);
                let slice = self.first_slice() + d * g.outputs_d;
                let row = shuffle.first + slice * shuffle.slice + (place.p + h) * shuffle.row;
                let position = row + ((place.q + w) << shuffle.shift);
                let to = self.output.y.wrapping_add(channel * plane);
                let mut to = to.wrapping_add(position as usize);
                let mut from = vector * (K_VECTOR_BYTES / 4);
                let mut left = channels;
                while left > 0 {
                    opaque::not_unrolled();
                    // All loads are issued before the first store waits for one. A warp has rows of all
                    // channels, of which it writes those that exist.
                    let of = |i: u32| words.load_vec::<4>(from + i * row_words);
                    let rows = [of(0), of(1), of(2), of(3)];
                    unroll!(4, |i| {
                        if (i as u32) < left {
                            GlobalMut::<u32>::new(to.cast(), 4).store_vec(0, rows[i]);
                        }
                        to = to.wrapping_add(plane);
                    });
                    from += ROWS_IN_FLIGHT as u32 * row_words;
                    left = left.saturating_sub(ROWS_IN_FLIGHT as u32);
                }
            }
            vector = opaque::to_compiler(vector + WARP_THREADS);
        }
    }
}
const _: () = assert!(ROWS_IN_FLIGHT == 4 && WARP_FILTERS / 4 == ROWS_IN_FLIGHT as u32);
