//! The store of a warp's results in NHWC: pixels of the warp's filters in shared memory, and from there to
//! the output.
//!
//! Rows of the accumulators are filters. Shared memory has the transpose, a row of the warp's filters for
//! each pixel, in vectors of 16 bytes. Lanes write the vectors of a pixel side by side: whole sectors.

use core::mem::size_of;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, mma, opaque};
use launch_config::WARP_THREADS;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::sm90::WARP_FILTERS;
use launch_config::implicit_gemm::{RoundedEpilogue, RoundedFunction};

use super::super::fixup::Rounded;
use super::super::format::Format;
use super::super::results::is_inside;
use super::super::tile_coord::TileCoord;
use super::results::{HALF_OCTETS, NO_PIXELS, Results};
use super::shared_rows::Rows;
use super::tile_epilogue::StoredNhwc;
use crate::parts::pointwise::{hardswish, silu};
use crate::parts::store::{pair_of, sloped, word_of};
use crate::parts::unroll::unroll;

/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;

/// Vectors of a lane in a staged tile.
const OF_LANE: u32 = 8;

/// Vectors of pixels in shared memory, for values of type `T`.
///
/// A pixel's vectors are swapped with each other by bits of the pixel's number, so that the lanes of a store,
/// and of a load, touch each bank once (twice in f32 stores).
struct Pixels<T>(Shared<T>);

impl<T: Storage> Pixels<T> {
    /// Values of a vector.
    const VALUES: u32 = VECTOR_BYTES / size_of::<T>() as u32;
    /// Vectors of a pixel.
    const VECTORS: u32 = WARP_FILTERS / Self::VALUES;
    /// Distance of the pixels of a lane.
    const STEP: u32 = WARP_THREADS / Self::VECTORS;
    /// Whether values have 16 bits: a vector is a row of a matrix.
    const ARE_HALVES: bool = size_of::<T>() == 2;

    /// Returns the index of the first value of vector `vector` of pixel `pixel`. Each lane has [`OF_LANE`] of
    /// the vectors.
    #[inline(always)]
    fn at(pixel: u32, vector: u32) -> u32 {
        const { assert!(Rows::<T>::PIXELS * Self::VECTORS == OF_LANE * WARP_THREADS) };
        let swap = pixel / (8 / Self::VECTORS) % Self::VECTORS;
        pixel * WARP_FILTERS + (vector ^ swap) * Self::VALUES
    }
}

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, StoredNhwc> {
    /// Octets of a staged tile.
    const OCTETS: usize = HALF_OCTETS as usize / Self::STAGED_TILES;

    /// Stores staged tile `staged_tile` of a half to shared memory, rounded to the storage type.
    ///
    /// # Safety
    /// All lanes of the warp make this call, and no lane reads the previous values any more.
    #[inline(always)]
    pub(super) unsafe fn store_pixels(&self, sums: &[f32; SUMS], staged_tile: usize) {
        let pixels = Pixels(self.rows.0);
        let (lane, first) = (self.lane, 4 * Self::OCTETS * staged_tile);
        if Pixels::<F::Stored>::ARE_HALVES {
            // Two octets of pixels by two octets of filters: four matrices, whose rows the lanes address.
            let (matrix, row) = (lane / 8, lane % 8);
            let at = Pixels::<F::Stored>::at(8 * (matrix / 2) + row, matrix % 2);
            unroll!(8, |pair| {
                let of = |i: usize| {
                    let at = first + 8 * pair + 2 * i;
                    word_of::<F::Stored>([sums[at], sums[at + 1]])
                };
                let at = at + pair as u32 * 16 * WARP_FILTERS;
                mma::stmatrix_x4_trans(pixels.0.addr(at), [of(0), of(1), of(2), of(3)]);
            });
        } else {
            let values = Pixels::<F::Stored>::VALUES;
            let of_row = [0, 8].map(|row| {
                let filter = lane / 4 + row;
                Pixels::<F::Stored>::at(2 * (lane % 4), filter / values) + filter % values
            });
            unroll!(16, |n| {
                if n < Self::OCTETS {
                    unroll!(4, |i| {
                        // Both pixels of a lane swap their vectors alike, and so do those of all octets.
                        let at = of_row[i / 2] + (8 * n + i % 2) as u32 * WARP_FILTERS;
                        let value = F::Stored::from_f32(sums[first + 4 * n + i]);
                        pixels.0.store(at, value);
                    });
                }
            });
        }
    }

    /// The places of a lane's vectors in a staged tile.
    #[inline(always)]
    unsafe fn places(&self, first: u32) -> Places<'_, F, SUMS> {
        // Recomputed for each half; kept values derived from these would take too many registers.
        let lane = opaque::to_compiler(self.lane);
        let place = TileCoord {
            sample: opaque::to_compiler(self.place.sample),
            p: opaque::to_compiler(self.place.p),
            ..*self.place
        };
        let conv = ConvGeometry {
            groups: opaque::to_compiler(self.g.conv.groups),
            z: opaque::to_compiler(self.g.conv.z),
            ..self.g.conv
        };
        let channels = conv.output_channels() as usize;
        let spatial = conv.output_pixels() as usize;
        let (vectors, values) = (Pixels::<F::Stored>::VECTORS, Pixels::<F::Stored>::VALUES);
        let vector = lane % vectors;
        let of_word = Rows::<F::Stored>::OF_WORD as usize;
        let of_tile = (self.first_slice() * conv.p + place.p) * conv.q + place.q;
        let channel = opaque::to_compiler(self.channel) + vector * values;
        Places {
            of: self,
            first: first + lane / vectors,
            // A group has whole vectors of channels.
            limits: match vector * values < self.filters {
                true => self.limits(),
                false => NO_PIXELS,
            },
            at: (place.sample as usize * spatial + of_tile as usize) * channels + channel as usize,
            channels,
            words: conv.n as usize * spatial * channels / of_word,
        }
    }

    /// Writes the staged tile to the output, from pixel `first` of the tile on. 16-bit values go through the
    /// epilogue of rounded results.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after a warp barrier that follows the stores of the pixels.
    #[inline(always)]
    pub(super) unsafe fn write_pixels(&self, first: u32) {
        let Some(Rounded { epilogue, residual }) = self.output.without_norm.rounded else {
            return;
        };
        let places = self.places(first);
        let y = GlobalMut::<u32>::new(self.output.y.cast(), places.words);
        let residual = Global::<u32>::new(residual.cast(), places.words);
        let is_added = Pixels::<F::Stored>::ARE_HALVES && epilogue.residual.is_present();
        let staged = self.rows.0.cast::<u32>();
        let of_word = Rows::<F::Stored>::OF_WORD;
        let lane = opaque::to_compiler(self.lane);
        let (vectors, step) = (Pixels::<F::Stored>::VECTORS, Pixels::<F::Stored>::STEP);
        let row = Pixels::<F::Stored>::at(lane / vectors, lane % vectors) / of_word;
        let load = |pair: u32| {
            let mut added = [[0; 4]; 2];
            if is_added && pair < OF_LANE / 2 {
                unroll!(2, |i| {
                    if let Some(at) = places.word(2 * pair + i as u32) {
                        added[i] = residual.load_vec::<4>(at);
                    }
                });
            }
            added
        };
        // The residuals of the next pair of vectors are in flight.
        let (mut pair, mut next) = (0, load(0));
        while pair < OF_LANE / 2 {
            opaque::not_unrolled();
            let added = next;
            next = load(pair + 1);
            let mut rows = [[0; 4]; 2];
            unroll!(2, |i| {
                // All of a lane's pixels swap their vectors alike.
                let vector = 2 * pair + i as u32;
                rows[i] = staged.load_vec::<4>(row + vector * step * WARP_FILTERS / of_word);
            });
            if Pixels::<F::Stored>::ARE_HALVES && epilogue != RoundedEpilogue::NONE {
                rows = finished::<F::Stored>(&epilogue, rows, added);
            }
            unroll!(2, |i| {
                if let Some(at) = places.word(2 * pair + i as u32) {
                    y.store_vec(at, rows[i]);
                }
            });
            pair = opaque::to_compiler(pair + 1);
        }
    }
}

/// The places of a lane's vectors in the output, and in a residual.
struct Places<'a, F: Format, const SUMS: usize> {
    of: &'a Results<'a, F, SUMS, StoredNhwc>,
    /// The pixel of the first vector.
    first: u32,
    limits: u32,
    /// The element of the tile's first pixel.
    at: usize,
    channels: usize,
    /// The number of words of the output.
    words: usize,
}

impl<F: Format, const SUMS: usize> Places<'_, F, SUMS> {
    /// The first word of vector `i`, if it is in the output.
    #[inline(always)]
    unsafe fn word(&self, i: u32) -> Option<usize> {
        let pixel = self.first + i * Pixels::<F::Stored>::STEP;
        let memory = &self.of.memory;
        is_inside(self.limits, memory.pixels.load(pixel)).then(|| {
            let position = memory.positions.load(pixel) as usize;
            (self.at + position * self.channels) / Rows::<F::Stored>::OF_WORD as usize
        })
    }
}

/// Applies the epilogue to two vectors of rounded results, with the residuals `added`.
#[inline(always)]
fn finished<T: Storage>(
    epilogue: &RoundedEpilogue,
    rows: [[u32; 4]; 2],
    added: [[u32; 4]; 2],
) -> [[u32; 4]; 2] {
    let mut values = rows.map(|row| row.map(pair_of::<T>));
    match epilogue.function {
        RoundedFunction::SILU => each(&mut values, silu::<T>),
        RoundedFunction::HARDSWISH => each(&mut values, hardswish),
        _ => {}
    }
    if epilogue.residual.is_present() {
        unroll!(2, |i| {
            unroll!(4, |j| {
                let ([a, b], [c, d]) = (values[i][j], pair_of::<T>(added[i][j]));
                values[i][j] = [a + c, b + d];
            });
        });
        each(&mut values, |value| sloped(&epilogue.after, value));
    }
    values.map(|row| row.map(word_of::<T>))
}

/// Applies `f` to all values.
#[inline(always)]
fn each(values: &mut [[[f32; 2]; 4]; 2], f: impl Fn(f32) -> f32) {
    unroll!(2, |i| {
        unroll!(4, |j| {
            values[i][j] = values[i][j].map(&f);
        });
    });
}
