//! The epilogue of a block: moments, and the output or its pooled extrema.

use core::marker::PhantomData;

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, math, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{
    BLOCK_THREADS, ImplicitGemmGeometry, K_VECTOR_WORDS, OPERAND_ROWS, PLACE_BITS, TILE_PADDING,
};

use super::fixup::WithoutNorm;
use super::format::Format;
use super::tables::to_word;
use super::tile::{MAX_PIXEL_OCTETS, Sums, TileShape};
use super::tile_coord::{FilterSet, TileCoord, load_tile};
use crate::parts::moments::stored;
use crate::parts::unroll::unroll;

pub(super) mod moments;
mod promotion;
mod rows;
mod windows;

/// The bit above each coordinate of a packed word.
pub(super) const BEYOND: u32 = {
    let bit = 1 << (PLACE_BITS - 1);
    bit | bit << PLACE_BITS | bit << (2 * PLACE_BITS)
};

// The pixels of a lane fit the bits of a word (`moments::Inside`).
const _: () = assert!(2 * MAX_PIXEL_OCTETS <= 32);

/// Parameters and outputs of the epilogue.
pub(super) struct Output<'a, T: Storage> {
    pub(super) bias: *const T,
    pub(super) norm_weight: *const T,
    pub(super) scale: *const T,
    pub(super) y: *mut T,
    pub(super) moments: *mut f32,
    /// Parameters of a convolution without a norm.
    pub(super) without_norm: WithoutNorm<'a, T>,
}

/// The epilogue's view of a block.
pub(super) struct Results<'a, F: Format, S: TileShape> {
    pub(super) thread: u32,
    /// For each pixel, its packed coordinates in the tile.
    pub(super) pixels: Shared<u32>,
    /// For each pixel, its offset in the output plane from the tile's first pixel.
    pub(super) positions: Shared<u32>,
    /// For each pooling window, its packed coordinates in the tile.
    pub(super) windows: Shared<u32>,
    /// For each filter: bias, reciprocal scale, and a sign. The sign is -1 where norm and scale reverse the
    /// order of values; it is multiplied into bias and scale, so that pools always take the largest value.
    /// Without a norm, the last two numbers are gain and shift.
    pub(super) channels: Shared<f32>,
    /// Moments for each filter and warp.
    pub(super) moments: Shared<f32>,
    /// The values of the tile, a row for each filter.
    pub(super) tile: Shared<f32>,
    pub(super) output: &'a Output<'a, F::Stored>,
    pub(super) g: ImplicitGemmGeometry,
    /// The warp's index along the filters, and along the pixels.
    pub(super) filter_warp: u32,
    pub(super) pixel_warp: u32,
    pub(super) format: PhantomData<(F, S)>,
}

/// Whether `x` is neither 0, nor subnormal, nor infinite.
#[inline(always)]
pub(super) fn is_normal(x: f32) -> bool {
    let magnitude = math::abs(x);
    (f32::MIN_POSITIVE..f32::INFINITY).contains(&magnitude)
}

/// Returns the two reciprocal scales of a sum, powers of two, the smaller one first. The epilogue needs the
/// order if their product is not a normal number.
#[inline(always)]
pub(super) fn in_order(descale: f32, input_descale: f32) -> [f32; 2] {
    let swap = math::abs(descale) > input_descale;
    let first = if swap { input_descale } else { descale };
    [first, if swap { descale } else { input_descale }]
}

/// Returns the last coordinates of the tile at `place` within the output, with the bit above each set.
/// Subtracting a pixel's packed coordinates keeps this bit for each coordinate within the output.
#[inline(always)]
pub(super) fn limits(g: &ImplicitGemmGeometry, place: &TileCoord) -> u32 {
    let conv = &g.conv;
    // An unused pixel has coordinates beyond any tile's.
    let last = |extent: u32, first: u32, tile: u32| (extent - first).min(tile) - 1;
    let last = to_word(
        last(conv.z, place.z, g.tile_d),
        last(conv.p, place.p, g.tile_h),
        last(conv.q, place.q, g.tile_w),
    );
    last | BEYOND
}

/// Whether all pixels of the tile at `place` are within the output.
#[inline(always)]
pub(super) fn is_within(g: &ImplicitGemmGeometry, place: &TileCoord) -> bool {
    let conv = &g.conv;
    place.z + g.tile_d <= conv.z && place.p + g.tile_h <= conv.p && place.q + g.tile_w <= conv.q
}

/// Whether a pixel is in the output.
#[inline(always)]
pub(super) fn is_inside(limits: u32, pixel: u32) -> bool {
    (limits - pixel) & BEYOND == BEYOND
}

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Floats from one row of the tile to the next.
    pub(super) const PITCH: u32 = S::TILE.pixels() + TILE_PADDING;

    /// Floats of the tile.
    pub(super) const TILE_WORDS: u32 = S::TILE.filters() * Self::PITCH;

    /// Whether this is a convolution without a norm, which only some tiles support.
    #[inline(always)]
    pub(super) fn is_without_norm(&self) -> bool {
        S::TILE.has_store_epilogue(F::OPERANDS) && self.g.epilogue.is_store()
    }

    /// Loads the parameters of the block's filters to shared memory, for all tiles.
    ///
    /// # Safety
    /// All threads of the block make this call, and a barrier follows.
    #[inline(always)]
    pub(super) unsafe fn load_channels(&self, filters: &FilterSet, filter_descales: Global<f32>) {
        let channels = self.g.conv.output_channels() as usize;
        let mut filter = self.thread;
        while filter < S::TILE.filters() {
            // Results of filters beyond the last one are not written.
            let (mut bias, mut descale, mut sign) = (0.0, 1.0, 1.0);
            if filter < filters.count {
                let channel = (filters.first_channel + filter) as usize;
                if self.g.conv.bias.is_present() {
                    bias = Global::new(self.output.bias, channels)
                        .load_readonly(channel)
                        .to_f32();
                }
                if F::OPERANDS.scaled {
                    descale = filter_descales.load_readonly(channel);
                }
                if self.g.pool_h > 0 && self.reversed(channel) {
                    sign = -1.0;
                }
            }
            let mut of_channel = [sign * bias, sign * descale, sign, 0.0];
            if self.is_without_norm() && filter < filters.count {
                let channel = (filters.first_channel + filter) as usize;
                [of_channel[2], of_channel[3]] =
                    self.output.without_norm.store.of_channel(channel, channels);
            }
            self.channels.store_vec(filter * K_VECTOR_WORDS, of_channel);
            filter += BLOCK_THREADS;
        }
    }

    /// Writes output and moments of the tile in entry `entry` of the table of tiles.
    ///
    /// # Safety
    /// All threads of the block make this call together, after a barrier since the last call.
    #[inline(always)]
    pub(super) unsafe fn finish(
        &self,
        sums: &mut Sums,
        tiles: Shared<u32>,
        entry: u32,
        input_descales: Global<f32>,
    ) {
        let (place, _) = load_tile(tiles, entry);
        let input_descale = if F::OPERANDS.scaled {
            input_descales.load_readonly(place.sample as usize)
        } else {
            1.0
        };
        self.scale(sums, input_descale);
        if !self.is_without_norm() {
            // The norm will read rounded values, so the moments are of rounded values.
            self.round(sums);
            self.take_moments(sums, &place);
        }
        self.store_tile(sums);
        thread::sync_threads();
        let (place, filters) = load_tile(tiles, entry);
        if !self.is_without_norm() {
            self.write_moments(&place, &filters);
        }
        if self.g.pool_h > 0 {
            self.write_windows(&place, &filters);
        } else {
            self.write_rows(&place, &filters);
        }
    }

    /// Returns the plane of the first filter in a tensor of `(n, k, ..)`.
    #[inline(always)]
    pub(super) fn first_plane(&self, place: &TileCoord, filters: &FilterSet) -> usize {
        place.sample as usize * self.g.conv.output_channels() as usize
            + filters.first_channel as usize
    }

    /// Returns the filter, in the tile, of the lane's row `i` of operand `m`. Row 1 is 8 filters further.
    #[inline(always)]
    fn filter_of(&self, m: usize, i: usize) -> u32 {
        let lane = self.thread % WARP_THREADS;
        let operand = self.filter_warp * S::TILE.operands + m as u32;
        operand * OPERAND_ROWS + lane / 4 + 8 * i as u32
    }

    /// Returns the first of the lane's two pixels of octet `n`.
    #[inline(always)]
    fn pixel_of(&self, n: usize) -> u32 {
        let lane = self.thread % WARP_THREADS;
        self.pixel_warp * S::TILE.warp_pixels() + 8 * n as u32 + 2 * (lane % 4)
    }

    /// Undoes the scaling and adds the bias.
    #[inline(always)]
    unsafe fn scale(&self, sums: &mut Sums, input_descale: f32) {
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(2, |i| {
                    let [bias, descale, ..] = self.channels.load_vec::<4>(self.filter_of(m, i) * 4);
                    let mut factor = descale * input_descale;
                    if F::OPERANDS.scaled && !is_normal(factor) {
                        let first;
                        [first, factor] = in_order(descale, input_descale);
                        unroll!(16, |n| {
                            if (n as u32) < S::TILE.pixel_octets {
                                unroll!(2, |j| {
                                    sums[m][n][2 * i + j] *= first;
                                });
                            }
                        });
                    }
                    unroll!(16, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            unroll!(2, |j| {
                                let sum = &mut sums[m][n][2 * i + j];
                                *sum = math::fma(*sum, factor, bias);
                            });
                        }
                    });
                });
            }
        });
    }

    /// Rounds the values to the storage type.
    #[inline(always)]
    fn round(&self, sums: &mut Sums) {
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(16, |n| {
                    if (n as u32) < S::TILE.pixel_octets {
                        let [a, b, c, d] = sums[m][n];
                        let ([a, b], [c, d]) =
                            (stored::<F::Stored>([a, b]), stored::<F::Stored>([c, d]));
                        sums[m][n] = [a, b, c, d];
                    }
                });
            }
        });
    }

    /// Whether every pixel of the tile is in the output.
    #[inline(always)]
    fn is_whole(&self, place: &TileCoord) -> bool {
        self.g.tile_pixels() == S::TILE.pixels() && is_within(&self.g, place)
    }

    /// Stores the values to shared memory.
    #[inline(always)]
    unsafe fn store_tile(&self, sums: &Sums) {
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(2, |i| {
                    let row = self.filter_of(m, i) * Self::PITCH;
                    unroll!(16, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            let values = [sums[m][n][2 * i], sums[m][n][2 * i + 1]];
                            self.tile.store_vec(row + self.pixel_of(n), values);
                        }
                    });
                });
            }
        });
    }
}
