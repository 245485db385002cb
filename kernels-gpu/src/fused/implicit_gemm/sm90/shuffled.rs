//! The store of a warp's results where neighbouring filters are neighbouring columns of the output.
//!
//! A row of results in shared memory has the columns of one channel: those that its filters make of each
//! pixel side by side. Rows of the output may begin on any element, and memory reads a sector before it writes
//! a part of it. So two lanes write a whole sector of the output at a time, a vector of 16 bytes each. Its
//! values lie in two vectors of the row, and are shifted together. The values at both ends of a row of the tile
//! are written one by one.

use core::mem::size_of;

use cuda_std::global::GlobalMut;
use cuda_std::shared::Shared;
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, WARP_FILTERS, WRITTEN_WORDS};
use launch_config::implicit_gemm::{K_VECTOR_BYTES, PixelShuffle, SECTOR_BYTES};

use super::super::format::Format;
use super::super::results::is_inside;
use super::super::tables::from_word;
use super::Ending;
use super::results::Results;
use super::shared_rows::Rows;
use crate::parts::unroll::unroll;

/// Words of shared memory for each filter of a row.
const FILTER_WORDS: u32 = WRITTEN_WORDS / WARP_FILTERS;

/// Rows that a lane has in flight to the output at a time.
const ROWS_IN_FLIGHT: usize = 2;

/// The columns of some pixels of the tile, as many values as a sector has. Two lanes write them to rows of the
/// output.
#[derive(Clone, Copy)]
struct Columns {
    /// The first one in a row of shared memory.
    first: u32,
    /// The place of the first one in a plane of the output, where the row may begin within a sector.
    position: u32,
    /// Values at the beginning that the output lacks.
    cropped: u32,
    /// Values in front of them, at most a sector, that are of the same row of the tile and of the output; none
    /// where they are not in shared memory.
    in_front: u32,
    /// Values up to the end of the row of the tile; none where the pixels are beside the output.
    values: u32,
    /// Whether the values behind them are not of this row of the tile, or not in shared memory.
    are_last: bool,
}

impl Columns {
    /// What the lanes write with sectors of `all` values, counted from the sector of the output that has the
    /// first value behind `before` others: the values that follow are written by the next lanes.
    #[inline(always)]
    fn written(&self, before: u32, all: u32) -> [u32; 2] {
        [
            if self.in_front > 0 {
                before.saturating_sub(self.in_front)
            } else {
                before + self.cropped
            },
            if self.are_last {
                before + self.values
            } else {
                all
            },
        ]
    }
}

/// The rows of a warp's channels in the output.
#[derive(Clone, Copy)]
struct Channels {
    /// The plane of the first channel, in elements of the output.
    first: usize,
    count: u32,
    /// Elements of a plane.
    plane: usize,
    /// Values from a row in shared memory to the next.
    pitch: u32,
}

impl Channels {
    /// Where channel `channel` has the first of these values. It may be in front of the output, where that
    /// lacks the value.
    #[inline(always)]
    fn place(&self, channel: u32, columns: &Columns) -> usize {
        let position = columns.position as i32 as usize;
        (self.first + channel as usize * self.plane).wrapping_add(position)
    }
}

impl<F: Format, E: Ending, const SUMS: usize> Results<'_, F, E, SUMS> {
    /// Values of a vector and of a sector.
    const VECTOR_VALUES: u32 = K_VECTOR_BYTES / size_of::<F::Stored>() as u32;
    const SECTOR_VALUES: u32 = SECTOR_BYTES / size_of::<F::Stored>() as u32;

    /// Values of shared memory for each filter of a row.
    const OF_FILTER: u32 = FILTER_WORDS * Rows::<F::Stored>::OF_WORD;

    /// Whether filters become columns.
    #[inline(always)]
    pub(super) fn is_shuffled(&self) -> bool {
        !E::HAS_NORM && !E::IS_NHWC && self.g.shuffle.is_present()
    }

    /// The shuffle. Recomputed each time: what depends on it alone would else take registers during the mainloop.
    #[inline(always)]
    fn shuffle(&self) -> PixelShuffle {
        let shuffle = &self.g.shuffle;
        PixelShuffle {
            shift: opaque::to_compiler(shuffle.shift),
            plane: opaque::to_compiler(shuffle.plane),
            slice: opaque::to_compiler(shuffle.slice),
            row: opaque::to_compiler(shuffle.row),
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
            let channel = filter >> shuffle.shift;
            let column = (2 * (lane % 4)) << shuffle.shift;
            ((channel * Self::OF_FILTER) << shuffle.shift) + shuffle.phase(filter) + column
        };
        // Moved on from octet to octet: the places of all of them would take registers beside the accumulators.
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
        let shuffle = self.shuffle();
        let of_output = (self.g.conv.output_channels() >> shuffle.shift) as usize;
        let channel = self.place.sample as usize * of_output;
        let channel = channel + (self.channel >> shuffle.shift) as usize;
        let plane = shuffle.plane as usize;
        let channels = Channels {
            first: channel * plane,
            count: self.filters >> shuffle.shift,
            plane,
            pitch: Self::OF_FILTER << shuffle.shift,
        };
        // The vectors of a row are one for each lane, or several.
        let vectors = (Rows::<F::Stored>::PIXELS / Self::VECTOR_VALUES) << shuffle.shift;
        let mut number = 0;
        while number < vectors {
            opaque::not_unrolled();
            let lane = opaque::to_compiler(self.lane);
            let columns = self.columns(first, (number + lane) / 2);
            if columns.values > 0 {
                self.write_columns(&channels, &columns, lane % 2 * Self::VECTOR_VALUES);
            }
            number = opaque::to_compiler(number + WARP_THREADS);
        }
    }

    /// Those of sector `number` of each row in shared memory.
    #[inline(always)]
    unsafe fn columns(&self, first: u32, number: u32) -> Columns {
        let (g, place, shuffle) = (&self.g, self.place, self.shuffle());
        let pixels = Self::SECTOR_VALUES >> shuffle.shift;
        let pixel = number * pixels;
        let word = self.memory.pixels.load(first + pixel);
        let [d, h, w] = from_word(word);
        let slice = self.first_slice() + d * g.outputs_d;
        let q = place.q + w;
        // The columns of the first pixel that the output lacks are in front of its first.
        let column = (q << shuffle.shift).wrapping_sub(shuffle.cropped);
        // The row of the tile ends before the next tile, or with the output.
        let end = (place.q + g.tile_w.min(g.conv.q - place.q)) << shuffle.shift;
        let end = (end - shuffle.cropped).min(shuffle.columns);
        let values = if is_inside(self.limits(), word) {
            end.wrapping_sub(column)
        } else {
            0
        };
        let position = shuffle.first + slice * shuffle.slice + (place.p + h) * shuffle.row;
        Columns {
            first: number * Self::SECTOR_VALUES,
            position: position.wrapping_add(column),
            cropped: if q == 0 { shuffle.cropped } else { 0 },
            in_front: if w > 0 && pixel > 0 {
                column.min(Self::SECTOR_VALUES)
            } else {
                0
            },
            values: values.min(Self::SECTOR_VALUES),
            are_last: values <= Self::SECTOR_VALUES || pixel + pixels == Rows::<F::Stored>::PIXELS,
        }
    }

    /// Writes the lane's half, from `half` on, of a sector of each row; behind the last values of a row, of the
    /// next sector, too.
    #[inline(always)]
    unsafe fn write_columns(&self, channels: &Channels, columns: &Columns, half: u32) {
        let words = self.rows.0.cast::<u32>();
        let mut channel = 0;
        while channel < channels.count {
            opaque::not_unrolled();
            // All loads are issued before the first store waits for one.
            let mut vectors = [[[0u32; 4]; 2]; ROWS_IN_FLIGHT];
            let mut of_rows = [(0, 0, [0; 2]); ROWS_IN_FLIGHT];
            unroll!(2, |i| {
                let channel = channel + i as u32;
                if channel < channels.count {
                    let place = channels.place(channel, columns);
                    let before = place as u32 % Self::SECTOR_VALUES;
                    let [begin, end] = columns.written(before, Self::SECTOR_VALUES);
                    of_rows[i] = (place, before, [begin, end]);
                    if begin <= half && half + Self::VECTOR_VALUES <= end {
                        let row = channel * channels.pitch + columns.first + half;
                        vectors[i] = self.two_vectors(words, row - before);
                    }
                }
            });
            unroll!(2, |i| {
                let (place, before, [begin, end]) = of_rows[i];
                let to = self
                    .output
                    .y
                    .wrapping_add(place)
                    .wrapping_sub(before as usize);
                let behind = half + Self::VECTOR_VALUES;
                if begin <= half && behind <= end {
                    let shift = before % Self::VECTOR_VALUES;
                    let values = shifted::<F::Stored>(vectors[i], shift);
                    let to = to.wrapping_add(half as usize);
                    GlobalMut::<u32>::new(to.cast(), 4).store_vec(0, values);
                } else if begin.max(half) < end.min(behind) {
                    let row = (channel + i as u32) * channels.pitch + columns.first;
                    let some = [begin.max(half), end.min(behind)];
                    self.write_some(to, some, row.wrapping_sub(before));
                }
                let half = half + Self::SECTOR_VALUES;
                if half < end {
                    let row = (channel + i as u32) * channels.pitch + columns.first;
                    let some = [begin.max(half), end.min(half + Self::VECTOR_VALUES)];
                    self.write_some(to, some, row.wrapping_sub(before));
                }
            });
            channel = opaque::to_compiler(channel + ROWS_IN_FLIGHT as u32);
        }
    }

    /// The vectors of shared memory that have the values of a vector that begins at `from`: the second one has
    /// the last of them.
    #[inline(always)]
    unsafe fn two_vectors(&self, words: Shared<u32>, from: u32) -> [[u32; 4]; 2] {
        let in_vector = from % Self::VECTOR_VALUES;
        let first = (from - in_vector) / Rows::<F::Stored>::OF_WORD;
        if in_vector == 0 {
            return [[0; 4], words.load_vec::<4>(first)];
        }
        [words.load_vec::<4>(first), words.load_vec::<4>(first + 4)]
    }

    /// Writes values one by one: those from `begin` to `end`, at most a vector, counted from `to` on. `first`
    /// is the place in shared memory of the value for `to`.
    #[inline(always)]
    unsafe fn write_some(&self, to: *mut F::Stored, [begin, end]: [u32; 2], first: u32) {
        let mut values = [F::Stored::from_f32(0.0); 8];
        let to = to.wrapping_add(begin as usize);
        let is_there = |i: usize| (i as u32) < Self::VECTOR_VALUES && begin + (i as u32) < end;
        unroll!(8, |i| {
            if is_there(i) {
                values[i] = self.rows.0.load(first.wrapping_add(begin + i as u32));
            }
        });
        unroll!(8, |i| {
            if is_there(i) {
                GlobalMut::new(to.wrapping_add(i), 1).store(0, values[i]);
            }
        });
    }
}

/// The last `before` values of type `T` of the first vector, and what of the second one fits behind them.
#[inline(always)]
fn shifted<T: Storage>([first, second]: [[u32; 4]; 2], before: u32) -> [u32; 4] {
    let of_word = Rows::<T>::OF_WORD;
    let words = before / of_word;
    let [a, b, c, d] = first;
    let [e, f, g, h] = second;
    // By two words, by one, and by half of one.
    let by_two = if words & 2 == 0 {
        [c, d, e, f, g, h]
    } else {
        [a, b, c, d, e, f]
    };
    let [a, b, c, d, e, f] = by_two;
    let by_one = if words & 1 == 0 {
        [b, c, d, e, f]
    } else {
        [a, b, c, d, e]
    };
    let [last, ..] = by_one;
    let [_, a, b, c, d] = by_one;
    if before.is_multiple_of(of_word) {
        return [a, b, c, d];
    }
    let half = |low: u32, high: u32| low >> 16 | high << 16;
    [half(last, a), half(a, b), half(b, c), half(c, d)]
}
