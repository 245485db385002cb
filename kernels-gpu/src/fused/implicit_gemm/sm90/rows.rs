//! The store of a warp's results: to rows in shared memory, and from there to the output.
//!
//! Values have their final form before they reach the rows. Writing one to the output therefore takes a load,
//! an address, and a check that the filter exists.

use core::mem::size_of;

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
    /// Stores staged tile `staged_tile` of a half to shared memory, and rounds its accumulators to the
    /// storage type: the norm will read rounded values, so moments are of these.
    #[inline(always)]
    pub(super) unsafe fn stage_rows(&self, sums: &mut [f32; SUMS], staged_tile: usize) {
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
    /// All lanes of the warp make this call, after a warp barrier that follows the stores of the rows.
    #[inline(always)]
    pub(super) unsafe fn write_rows(&self, first: u32) {
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
        } else if neighbours.is_multiple_of(2 * of_word) {
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
        // Recomputed for each half; kept values derived from it would take too many registers.
        let lane = opaque::to_compiler(self.lane);
        let (limits, of_tile) = (self.limits(), self.first_position());
        let spatial = self.g.conv.output_pixels();
        let (pixels, pitch) = (Rows::<F::Stored>::PIXELS, Rows::<F::Stored>::PITCH);
        // Lanes along the pixels of a row, and filters that the warp's lanes cover at a time.
        let lanes = (pixels / together).min(WARP_THREADS);
        let step = WARP_THREADS / lanes;
        let filter = lane / lanes;
        let mut pixel = lane % lanes * together;
        loop {
            opaque::not_unrolled();
            if let Some(position) = self.position(limits, of_tile, first + pixel) {
                let to = self.plane(filter) * spatial as usize + position as usize;
                let to = self.output.y.wrapping_add(to);
                let from = (filter * pitch + pixel) / of_element;
                unroll!(2, |group| {
                    let row = |i: usize| (ROWS_IN_FLIGHT * group + i) as u32 * step;
                    if row(0) < WARP_FILTERS {
                        // All loads are issued before the first store waits for one.
                        let of = |i: usize| load(from + row(i) * (pitch / of_element));
                        let rows = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
                        let write = |i| store(planes_behind(to, spatial, row(i)), rows[i]);
                        // Usually all filters exist, and no store has a condition.
                        if self.filters == WARP_FILTERS {
                            unroll!(8, |i| {
                                write(i);
                            });
                        } else {
                            // Compared here, and not in front of the branch.
                            let filters = opaque::to_compiler(self.filters);
                            unroll!(8, |i| {
                                if filter + row(i) < filters {
                                    write(i);
                                }
                            });
                        }
                    }
                });
            }
            pixel = opaque::to_compiler(pixel + lanes * together);
            if pixel >= pixels {
                break;
            }
        }
    }

    /// The position of the tile's first pixel in a plane of the output.
    #[inline(always)]
    pub(super) fn first_position(&self) -> u32 {
        let conv = &self.g.conv;
        (self.first_slice() * conv.p + self.place.p) * conv.q + self.place.q
    }

    /// The position of a pixel of the tile in a plane of the output, if it is in the output, for the
    /// [`limits`](Self::limits) and the [first position](Self::first_position) of the tile.
    #[inline(always)]
    pub(super) unsafe fn position(&self, limits: u32, of_tile: u32, pixel: u32) -> Option<u32> {
        // Both loads are in flight together; the position of an unused pixel has no meaning.
        let at = self.memory.pixels.load(pixel);
        let position = of_tile.wrapping_add(self.memory.positions.load(pixel));
        is_inside(limits, at).then_some(position)
    }
}
const _: () = assert!(ROWS_IN_FLIGHT == 8 && WARP_FILTERS == 2 * ROWS_IN_FLIGHT as u32);

/// Returns `to`, moved by `planes` planes of `spatial` elements.
#[inline(always)]
pub(super) fn planes_behind<T>(to: *mut T, spatial: u32, planes: u32) -> *mut T {
    let bytes = opaque::wide_product(spatial, planes * size_of::<T>() as u32);
    to.wrapping_byte_add(bytes as usize)
}
