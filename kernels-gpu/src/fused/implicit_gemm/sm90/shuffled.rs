//! The store of a warp's results where neighbouring filters are neighbouring columns of the output.
//!
//! A row of results in shared memory has the columns of one channel: those that its filters make of each
//! pixel side by side. Lanes copy neighbouring columns. A list with a residual is applied on the way, to four
//! columns at a time, where rows of the output are whole vectors: results are rounded already.

use core::mem::size_of;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, opaque};
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, WARP_FILTERS, WRITTEN_WORDS};
use launch_config::implicit_gemm::{K_VECTOR_BYTES, PixelShuffle};
use launch_config::{VECTOR_ELEMENTS, WARP_THREADS};

use super::super::format::Format;
use super::super::results::is_inside;
use super::super::tables::from_word;
use super::results::{HALF_SUMS, Results, elements};
use super::rows::planes_behind;
use super::shared_rows::Rows;
use super::tile_epilogue::Stored;
use crate::parts::pointwise::{Kept, apply_with};
use crate::parts::unroll::unroll;

/// Words of shared memory for each filter of a row.
const FILTER_WORDS: u32 = WRITTEN_WORDS / WARP_FILTERS;

/// Rows that a lane has in flight to the output at a time.
const ROWS_IN_FLIGHT: usize = 4;

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Stored> {
    /// Whether filters become columns.
    #[inline(always)]
    pub(super) fn is_shuffled(&self) -> bool {
        self.g.shuffle.is_present()
    }

    /// Whether the list is applied to rows as they are written: it has a residual, or keeps a value for which
    /// there are no registers beside the accumulators of a whole tile.
    #[inline(always)]
    pub(super) fn is_listed_in_rows(&self) -> bool {
        let without_norm = &self.output.without_norm;
        self.is_shuffled()
            && (without_norm.has_residual() || SUMS > HALF_SUMS && without_norm.keeps())
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

    /// Writes the rows to the output, from pixel `first` of the tile on: 16 bytes at a time where rows of the
    /// output are whole vectors of them, else two columns, or one.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier behind the stores of the rows.
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
        let mut column = opaque::to_compiler(self.lane) * together;
        while column < Rows::<F::Stored>::PIXELS << shuffle.shift {
            opaque::not_unrolled();
            if let Some(to) = self.place_of(&shuffle, first, column) {
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

    /// Where column `column` of the rows, which are of the pixels from `first` on, lies in the output, for
    /// the warp's first channel; none beyond the output's end.
    #[inline(always)]
    unsafe fn place_of(&self, shuffle: &PixelShuffle, first: u32, column: u32) -> Option<usize> {
        let (g, place) = (&self.g, self.place);
        let word = self.memory.pixels.load(first + (column >> shuffle.shift));
        let [d, h, w] = from_word(word);
        let of_row = ((place.q + w) << shuffle.shift) + shuffle.phase(column);
        if !is_inside(self.limits(), word) || of_row >= shuffle.columns {
            return None;
        }
        let slice = self.first_slice() + d * g.outputs_d;
        let row = shuffle.first + slice * shuffle.slice + (place.p + h) * shuffle.row;
        let of_output = (g.conv.output_channels() >> shuffle.shift) as usize;
        let channel = place.sample as usize * of_output;
        let channel = channel + (self.channel >> shuffle.shift) as usize;
        Some(channel * shuffle.plane as usize + (row + of_row) as usize)
    }

    /// The same as [`write_shuffled`](Self::write_shuffled) through the list, four columns at a time.
    ///
    /// # Safety
    /// As of that. The residual, if the list has one, has an element for each of the output, and starts on 16
    /// bytes.
    #[inline(always)]
    pub(super) unsafe fn write_shuffled_through_list(&self, first: u32) {
        const COLUMNS: u32 = VECTOR_ELEMENTS as u32;
        let (shuffle, without_norm) = (self.shuffle(), &self.output.without_norm);
        let elements = elements::<Stored>(&self.g);
        let residual = Global::new(without_norm.residual, elements);
        let y = GlobalMut::new(self.output.y, elements);
        let has_residual = without_norm.has_residual();
        let plane = shuffle.plane as usize;
        let channels = self.filters >> shuffle.shift;
        let row = (FILTER_WORDS * Rows::<F::Stored>::OF_WORD) << shuffle.shift;
        let vectors = (Rows::<F::Stored>::PIXELS / COLUMNS) << shuffle.shift;
        let mut vector = opaque::to_compiler(self.lane);
        while vector < vectors {
            opaque::not_unrolled();
            let column = vector * COLUMNS;
            let Some(first) = self.place_of(&shuffle, first, column) else {
                vector = opaque::to_compiler(vector + WARP_THREADS);
                continue;
            };
            let mut done = 0;
            while done < channels {
                opaque::not_unrolled();
                let end = channels.min(done + ROWS_IN_FLIGHT as u32);
                // Those of several rows are in flight while the first goes through the list.
                let mut residuals = [[F::Stored::from_f32(0.0); VECTOR_ELEMENTS]; ROWS_IN_FLIGHT];
                unroll!(4, |i| {
                    let channel = done + i as u32;
                    if has_residual && channel < end {
                        residuals[i] = residual.load_vec(first + channel as usize * plane);
                    }
                });
                while done < end {
                    opaque::not_unrolled();
                    let values = self.rows.0.load_vec::<VECTOR_ELEMENTS>(column + done * row);
                    let channel = (self.channel >> shuffle.shift) + done;
                    let of_output = self.g.conv.output_channels() >> shuffle.shift;
                    let behind = without_norm.behind;
                    let of_channels = move || {
                        [behind.of_channel(channel as usize, of_output as usize); VECTOR_ELEMENTS]
                    };
                    let listed = apply_with::<F::Stored, VECTOR_ELEMENTS>(
                        without_norm.list,
                        F::Stored::to_f32_vector(values),
                        Some(F::Stored::to_f32_vector(residuals[0])),
                        Some(of_channels),
                        Kept::One,
                    );
                    let to = first + done as usize * plane;
                    y.store_vec(to, F::Stored::from_f32_vector(listed));
                    residuals = [residuals[1], residuals[2], residuals[3], residuals[3]];
                    done = opaque::to_compiler(done + 1);
                }
            }
            vector = opaque::to_compiler(vector + WARP_THREADS);
        }
    }
}
const _: () = assert!(ROWS_IN_FLIGHT == 4 && WARP_FILTERS / 4 == ROWS_IN_FLIGHT as u32);
