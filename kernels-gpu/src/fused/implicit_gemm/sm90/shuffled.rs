//! The store of a warp's results where neighbouring filters become neighbouring columns of the output.
//!
//! A row of results in shared memory has the columns of one channel: for each pixel, the results of the
//! channel's filters side by side. Lanes copy neighbouring columns.

use core::mem::size_of;

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, WARP_FILTERS, WRITTEN_WORDS};
use launch_config::implicit_gemm::{K_VECTOR_BYTES, PixelShuffle};

use super::super::format::Format;
use super::super::results::is_inside;
use super::super::tables::from_word;
use super::results::Results;
use super::rows::planes_behind;
use super::shared_rows::Rows;
use super::tile_epilogue::Stored;
use crate::parts::unroll::unroll;

/// Words of shared memory for each filter of a row.
pub(super) const FILTER_WORDS: u32 = WRITTEN_WORDS / WARP_FILTERS;

/// Rows that a lane has in flight to the output at a time.
const ROWS_IN_FLIGHT: usize = 4;

/// The common origin of a tile's columns in the output.
pub(super) struct Origin {
    /// The element of the output for the tile's first pixel, moved to column 0, in the warp's first channel.
    at: usize,
    /// The tile's limits.
    limits: u32,
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Stored> {
    /// Whether filters become columns. Phases of a transposed convolution share a reformatted input, so those
    /// of a dense one never do.
    #[inline(always)]
    pub(super) fn is_shuffled(&self) -> bool {
        !F::READS_DENSE && self.g.shuffle.is_present()
    }

    /// Returns the shuffle, recomputed each time: kept values that depend on it alone would take registers
    /// during the mainloop.
    #[inline(always)]
    pub(super) fn shuffle(&self) -> PixelShuffle {
        let shuffle = &self.g.shuffle;
        PixelShuffle {
            shift: match F::READS_DENSE {
                true => 0,
                false => opaque::to_compiler(shuffle.shift),
            },
            plane: opaque::to_compiler(shuffle.plane),
            ..*shuffle
        }
    }

    /// Stores staged tile `staged_tile` of a half to rows of channels in shared memory.
    #[inline(always)]
    pub(super) unsafe fn store_shuffled(&self, sums: &[f32; SUMS], staged_tile: usize) {
        // With a known number of phases, the distances between a lane's columns are part of the instructions.
        match self.shuffle().shift {
            1 => self.store_phases(sums, staged_tile, 1),
            _ => self.store_phases(sums, staged_tile, 2),
        }
    }

    /// Stores the staged tile, where a channel has `1 << shift` filters.
    #[inline(always)]
    unsafe fn store_phases(&self, sums: &[f32; SUMS], staged_tile: usize, shift: u32) {
        let octets = HALF_PIXELS as usize / 8 / Self::STAGED_TILES;
        let lane = opaque::to_compiler(self.lane);
        let of_lane = |i: u32| {
            let filter = lane / 4 + 8 * i;
            let row = (filter >> shift) * (FILTER_WORDS * Rows::<F::Stored>::OF_WORD);
            let column = 2 * (lane % 4);
            let first = ((row + column) << shift) + (filter & ((1 << shift) - 1));
            self.rows.0.slice(first, self.rows.0.len() - first)
        };
        let places = [of_lane(0), of_lane(1)];
        unroll!(16, |n| {
            if n < octets {
                unroll!(2, |i| {
                    let at = 4 * (octets * staged_tile + n) + 2 * i;
                    let values = F::Stored::from_f32_pair([sums[at], sums[at + 1]]);
                    let pixel = 8 * n as u32;
                    places[i].store(pixel << shift, values[0]);
                    places[i].store((pixel + 1) << shift, values[1]);
                });
            }
        });
    }

    /// Writes the rows to the output, from pixel `first` of the tile on: 16 bytes at a time where rows of the
    /// output are whole vectors of them, else two columns, or one.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier that follows the stores of the rows.
    #[inline(always)]
    pub(super) unsafe fn write_shuffled(&self, first: u32) {
        let of_vector = K_VECTOR_BYTES / size_of::<F::Stored>() as u32;
        let (values, words) = (self.rows.0, self.rows.0.cast::<u32>());
        let columns = opaque::to_compiler(self.g.shuffle.columns);
        if columns.is_multiple_of(of_vector) {
            self.write_columns(
                first,
                of_vector,
                |from| words.load_vec::<4>(from / Rows::<F::Stored>::OF_WORD),
                |to, four| GlobalMut::<u32>::new(to.cast(), 4).store_vec(0, four),
            );
        } else if columns.is_multiple_of(2) {
            self.write_columns(
                first,
                2,
                |from| values.load_vec::<2>(from),
                |to, two| GlobalMut::new(to, 2).store_vec(0, two),
            );
        } else {
            self.write_columns(
                first,
                1,
                |from| values.load(from),
                |to, one| GlobalMut::new(to, 1).store(0, one),
            );
        }
    }

    /// Writes the rows `together` columns at a time, which are consecutive over the lanes. `load` takes the
    /// index of a value.
    #[inline(always)]
    unsafe fn write_columns<V: Copy>(
        &self,
        first: u32,
        together: u32,
        load: impl Fn(u32) -> V,
        store: impl Fn(*mut F::Stored, V),
    ) {
        let shuffle = self.shuffle();
        let channels = self.filters >> shuffle.shift;
        let row = (FILTER_WORDS * Rows::<F::Stored>::OF_WORD) << shuffle.shift;
        let origin = self.origin(&shuffle);
        let mut column = opaque::to_compiler(self.lane) * together;
        while column < Rows::<F::Stored>::PIXELS << shuffle.shift {
            opaque::not_unrolled();
            if let Some(to) = self.place_of(&shuffle, &origin, first, column) {
                let mut to = self.output.y.wrapping_add(to);
                let mut from = column;
                let mut left = channels;
                while left > 0 {
                    opaque::not_unrolled();
                    // All loads are issued before the first store waits for one. A warp has rows of all
                    // channels, of which it writes those that exist.
                    let of = |i: u32| load(from + i * row);
                    let rows = [of(0), of(1), of(2), of(3)];
                    unroll!(4, |i| {
                        if (i as u32) < left {
                            store(planes_behind(to, shuffle.plane, i as u32), rows[i]);
                        }
                    });
                    to = planes_behind(to, shuffle.plane, ROWS_IN_FLIGHT as u32);
                    from += ROWS_IN_FLIGHT as u32 * row;
                    left = left.saturating_sub(ROWS_IN_FLIGHT as u32);
                }
            }
            column = opaque::to_compiler(column + together * WARP_THREADS);
        }
    }

    /// Returns the origin of the tile's columns.
    #[inline(always)]
    pub(super) unsafe fn origin(&self, shuffle: &PixelShuffle) -> Origin {
        let place = self.place;
        let of_output = (self.g.conv.output_channels() >> shuffle.shift) as usize;
        let channel = place.sample as usize * of_output;
        let channel = channel + (self.channel >> shuffle.shift) as usize;
        let row = shuffle.first + self.first_slice() * shuffle.slice + place.p * shuffle.row;
        Origin {
            at: channel * shuffle.plane as usize + row as usize,
            limits: self.limits(),
        }
    }

    /// Returns the place in the output of column `column` of the rows, for the warp's first channel; `None`
    /// beyond the output's end. The rows have the pixels from `first` on.
    #[inline(always)]
    pub(super) unsafe fn place_of(
        &self,
        shuffle: &PixelShuffle,
        origin: &Origin,
        first: u32,
        column: u32,
    ) -> Option<usize> {
        let word = self.memory.pixels.load(first + (column >> shuffle.shift));
        let [d, h, w] = from_word(word);
        let of_row = ((self.place.q + w) << shuffle.shift) + shuffle.phase(column);
        if !is_inside(origin.limits, word) || of_row >= shuffle.columns {
            return None;
        }
        let in_tile = d * self.g.outputs_d * shuffle.slice + h * shuffle.row;
        Some(origin.at + (in_tile + of_row) as usize)
    }
}
const _: () = assert!(ROWS_IN_FLIGHT == 4 && WARP_FILTERS / 4 == ROWS_IN_FLIGHT as u32);
