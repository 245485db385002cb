//! The store of a warp's results where the output's rows do not begin on sectors of memory.
//!
//! Memory reads a sector of 32 bytes before it writes a part of it. Where the pixels of a tile are a run of
//! the output (`GemmGeometry::runs`), only the sectors at its two ends are shared with other tiles. So a
//! row of results in shared memory is a window of the output that begins on a sector: each value lies where
//! its position in the output puts it. Whole sectors are written; the values behind the last one move to the
//! front, and the next window begins with them.

use core::mem::size_of;

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, WARP_FILTERS, WRITTEN_WORDS};
use launch_config::implicit_gemm::{K_VECTOR_BYTES, SECTOR_BYTES};

use super::super::format::Format;
use super::TileEpilogue;
use super::results::{NO_PIXELS, Results};
use super::shared_rows::Rows;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// Words of a window.
const WINDOW_WORDS: u32 = WRITTEN_WORDS / WARP_FILTERS;

/// Vectors of 16 bytes of a window: one for each lane of half a warp, and two more.
const WINDOW_VECTORS: u32 = 4 * WINDOW_WORDS / K_VECTOR_BYTES;
const _: () = assert!(WINDOW_VECTORS == WARP_THREADS / 2 + 2);

/// Vectors that a lane writes of all windows, and how many of them are in flight at a time.
const VECTORS_OF_LANE: u32 = WARP_FILTERS * WINDOW_VECTORS / WARP_THREADS;
const TOGETHER: u32 = 3;
const _: () = assert!(VECTORS_OF_LANE == 9);

/// The part of a run that a staged tile holds: positions from the run's first output on.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Its positions, from the first to the one behind the last.
    first: u32,
    end: u32,
    /// The warp's first position of this tile.
    begin: u32,
    /// Whether it is the warp's last part of this tile that has pixels.
    is_last: bool,
    /// The end of the tile's positions.
    all: u32,
}

/// The window of a filter.
struct Window {
    /// Its first element of the output.
    start: usize,
    /// Where the values of this staged tile begin in it, and where they end.
    own: u32,
    end: u32,
    /// The values that are written now.
    written: [u32; 2],
}

impl<F: Format, const SUMS: usize, E: TileEpilogue> Results<'_, F, SUMS, E> {
    /// Values of a sector, of a vector and of a window.
    const SECTOR: u32 = SECTOR_BYTES / size_of::<F::Stored>() as u32;
    const VECTOR: u32 = K_VECTOR_BYTES / size_of::<F::Stored>() as u32;
    const WINDOW: u32 = 4 * WINDOW_WORDS / size_of::<F::Stored>() as u32;

    /// Whether the tile is written as a run.
    #[inline(always)]
    pub(super) fn writes_runs(&self) -> bool {
        self.g.runs.is_present()
    }

    /// The part of the run in the pixels from `first` on that a staged tile has.
    #[inline(always)]
    pub(super) unsafe fn run(&self, first: u32) -> Run {
        let (g, conv, place) = (&self.g, &self.g.conv, self.place);
        // Recomputed each time: what depends on these alone would else take registers during the mainloop.
        let pitch = opaque::to_compiler(g.tile_pitch);
        let width = opaque::to_compiler(g.tile_w).min(conv.q);
        let left = if width == conv.q {
            (conv.p - place.p) * width
        } else {
            conv.q - place.q
        };
        let all = if self.limits() == NO_PIXELS {
            0
        } else {
            left.min(g.tile_h * width)
        };
        let before = |pixel: u32| {
            let (row, column) = div_rem(pixel, pitch);
            (row * width + column.min(width)).min(all)
        };
        let behind = first + Rows::<F::Stored>::PIXELS;
        let of_warp = self.first_half * HALF_PIXELS;
        let (first, end) = (before(first), before(behind));
        Run {
            first,
            end,
            begin: before(of_warp),
            is_last: end == all || behind == of_warp + 2 * SUMS as u32,
            all,
        }
    }

    /// The window of the warp's filter `filter`.
    #[inline(always)]
    fn window(&self, run: &Run, filter: u32) -> Window {
        let conv = &self.g.conv;
        // Recomputed each time: values derived from these would else take registers in between.
        let row = opaque::to_compiler(self.first_slice()) * conv.p + self.place.p;
        let of_tile = row * conv.q + self.place.q;
        let spatial = opaque::to_compiler(conv.output_pixels());
        let first = self.plane(filter) * spatial as usize;
        let first = first + (of_tile + run.first) as usize;
        let own = first as u32 % Self::SECTOR;
        let end = own + run.end - run.first;
        // Before the run there are results of other tiles.
        let begin = (own + run.begin).saturating_sub(run.first);
        let whole = end / Self::SECTOR * Self::SECTOR;
        Window {
            start: first - own as usize,
            own,
            end,
            written: [begin, if run.is_last { end } else { whole }],
        }
    }

    /// Stores staged tile `staged_tile` of a half, whose pixels are those from `first` on, to the windows of
    /// its filters, and rounds its accumulators to the storage type.
    #[inline(always)]
    pub(super) unsafe fn store_run(
        &self,
        sums: &mut [f32; SUMS],
        (staged_tile, first): (usize, u32),
    ) {
        let run = self.run(opaque::to_compiler(first));
        let octets = HALF_PIXELS as usize / 8 / Self::STAGED_TILES;
        let lane = opaque::to_compiler(self.lane);
        let filter = lane / 4;
        let row = |i: u32| {
            let filter = filter + 8 * i;
            (filter * Self::WINDOW + self.window(&run, filter).own).wrapping_sub(run.first)
        };
        let rows = [row(0), row(1)];
        unroll!(16, |n| {
            if n < octets {
                let pixel = first + 8 * n as u32 + 2 * (lane % 4);
                let positions = self.memory.positions.load_vec::<2>(pixel);
                unroll!(2, |i| {
                    let at = 4 * (octets * staged_tile + n) + 2 * i;
                    let values = F::Stored::from_f32_pair([sums[at], sums[at + 1]]);
                    unroll!(2, |j| {
                        if positions[j] < run.all {
                            let at = rows[i].wrapping_add(positions[j]);
                            self.rows.0.store(at, values[j]);
                        }
                    });
                    [sums[at], sums[at + 1]] = F::Stored::to_f32_pair(values);
                });
            }
        });
    }

    /// Writes the windows to the output, up to their last whole sector, and moves what is behind it to the
    /// front; the last windows as a whole.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier behind the stores of the windows.
    #[inline(always)]
    pub(super) unsafe fn write_run(&self, run: &Run) {
        let lane = opaque::to_compiler(self.lane);
        let words = self.rows.0.cast::<u32>();
        // Behind the last part there is nothing to write.
        let is_over = run.first == run.all;
        let filters = if is_over { 0 } else { self.filters };
        let mut round = 0;
        while round < VECTORS_OF_LANE {
            opaque::not_unrolled();
            // All loads are issued before the first store waits for one.
            let mut vectors = [[0u32; 4]; TOGETHER as usize];
            let mut are_whole = [false; TOGETHER as usize];
            unroll!(3, |i| {
                let (filter, vector) = Self::vector_of(lane, round + i as u32);
                let [begin, end] = self.window(run, filter).written;
                let from = vector * Self::VECTOR;
                are_whole[i] = begin <= from && from + Self::VECTOR <= end && filter < filters;
                if are_whole[i] {
                    vectors[i] = words.load_vec::<4>(filter * WINDOW_WORDS + 4 * vector);
                }
            });
            unroll!(3, |i| {
                let (filter, vector) = Self::vector_of(opaque::to_compiler(lane), round + i as u32);
                let y = self.output.y.wrapping_add(self.window(run, filter).start);
                let to = y.wrapping_add((vector * Self::VECTOR) as usize);
                if are_whole[i] {
                    GlobalMut::<u32>::new(to.cast(), 4).store_vec(0, vectors[i]);
                }
            });
            round = opaque::to_compiler(round + TOGETHER);
        }
        if run.first == run.begin || run.is_last && !is_over {
            self.write_ends(run, lane);
        }
        self.move_rest(run, lane);
    }

    /// Writes the values in front of the first whole vector of a run, and those behind the last one: two
    /// lanes a filter.
    #[inline(always)]
    unsafe fn write_ends(&self, run: &Run, lane: u32) {
        let filter = lane / 2;
        let window = self.window(run, filter);
        let [begin, end] = window.written;
        let first = begin.next_multiple_of(Self::VECTOR).min(end);
        let last = (end / Self::VECTOR * Self::VECTOR).max(first);
        let [begin, end] = if lane.is_multiple_of(2) {
            [begin, first]
        } else {
            [last, end]
        };
        let y = self.output.y.wrapping_add(window.start);
        unroll!(8, |i| {
            let at = begin + i as u32;
            if (i as u32) < Self::VECTOR && at < end && filter < self.filters {
                let value = self.rows.0.load(filter * Self::WINDOW + at);
                GlobalMut::new(y.wrapping_add(at as usize), 1).store(0, value);
            }
        });
    }

    /// The filter and the vector of its window that a lane writes in round `round`: half a warp has the first
    /// vectors of a window, and in the last round two lanes have the last two.
    #[inline(always)]
    fn vector_of(lane: u32, round: u32) -> (u32, u32) {
        let half = WARP_THREADS / 2;
        if round + 1 == VECTORS_OF_LANE {
            (lane / 2, half + lane % 2)
        } else {
            (2 * round + lane / half, lane % half)
        }
    }

    /// Moves the values behind the last whole sector of each window to its front: two lanes a filter, each
    /// with a vector.
    #[inline(always)]
    unsafe fn move_rest(&self, run: &Run, lane: u32) {
        let filter = lane / 2;
        let Window {
            end,
            written: [begin, whole],
            ..
        } = self.window(run, filter);
        let row = filter * Self::WINDOW;
        let first = lane % 2 * Self::VECTOR;
        let is_there = |i: u32| !run.is_last && (begin..end).contains(&(whole + first + i));
        let mut values = [F::Stored::from_f32(0.0); 8];
        unroll!(8, |i| {
            if (i as u32) < Self::VECTOR && is_there(i as u32) {
                values[i] = self.rows.0.load(row + whole + first + i as u32);
            }
        });
        warp::sync_warp(warp::ALL_LANES);
        unroll!(8, |i| {
            if (i as u32) < Self::VECTOR && is_there(i as u32) {
                self.rows.0.store(row + first + i as u32, values[i]);
            }
        });
    }
}
