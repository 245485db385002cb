//! Moments of a tile's results.

use cuda_std::global::GlobalMut;
use cuda_std::{math, warp};
use launch_config::norm::COUNTED_ELEMENTS;

use super::super::format::Format;
use super::super::tile::{Sums, TileShape};
use super::super::tile_coord::{FilterSet, TileCoord};
use super::{Results, is_inside, limits};
use crate::parts::lanes::sum_of_quad;
use crate::parts::moments::Moments;
use crate::parts::unroll::unroll;

/// The pixels of up to 16 octets that are within the output.
#[derive(Clone, Copy)]
pub(in super::super) struct Inside {
    /// A lane's two pixels of octet `n` are bits `2 * n` and `2 * n + 1`.
    bits: u32,
    /// The number of these pixels in the four lanes of a quad.
    pub(in super::super) count: f32,
    /// The reciprocal of `count`, or 0.
    each: f32,
}

impl Inside {
    /// All pixels of `octets` octets.
    #[inline(always)]
    pub(in super::super) fn all(octets: u32) -> Self {
        Self::of(u32::MAX, (8 * octets) as f32)
    }

    /// The lane's pixels of `octets` octets whose coordinates are within `limits`.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(in super::super) unsafe fn find(
        limits: u32,
        octets: u32,
        coordinates: impl Fn(usize) -> [u32; 2],
    ) -> Self {
        let mut bits = 0;
        unroll!(16, |n| {
            if (n as u32) < octets {
                let pixels = coordinates(n);
                unroll!(2, |j| {
                    bits |= u32::from(is_inside(limits, pixels[j])) << (2 * n + j);
                });
            }
        });
        Self::of_bits(bits)
    }

    /// Returns the pixels in `bits`: the lane's two pixels of octet `n` are bits `2 * n` and `2 * n + 1`.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(in super::super) unsafe fn of_bits(bits: u32) -> Self {
        warp::sync_warp(warp::ALL_LANES);
        Self::of(bits, sum_of_quad(bits.count_ones() as f32))
    }

    #[inline(always)]
    fn of(bits: u32, count: f32) -> Self {
        let each = if count > 0.0 {
            math::reciprocal_approx(count)
        } else {
            0.0
        };
        Self { bits, count, each }
    }

    #[inline(always)]
    fn has(&self, n: usize, j: usize) -> bool {
        self.bits & 1 << (2 * n + j) != 0
    }

    /// Returns mean and M2 of a quad's values at these pixels.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(in super::super) unsafe fn moments(
        &self,
        octets: u32,
        values: impl Fn(usize, usize) -> f32,
    ) -> [f32; 2] {
        let mut sum = 0.0;
        unroll!(16, |n| {
            if (n as u32) < octets {
                unroll!(2, |j| {
                    sum += if self.has(n, j) { values(n, j) } else { 0.0 };
                });
            }
        });
        let mean = sum_of_quad(sum) * self.each;
        let mut m2 = 0.0;
        unroll!(16, |n| {
            if (n as u32) < octets {
                unroll!(2, |j| {
                    let deviation = values(n, j) - mean;
                    let deviation = if self.has(n, j) { deviation } else { 0.0 };
                    m2 = math::fma(deviation, deviation, m2);
                });
            }
        });
        [mean, sum_of_quad(m2)]
    }

    /// Returns mean and M2 of two rows of values. The rows are interleaved, so that neither waits for its own
    /// additions.
    ///
    /// # Safety
    /// As [`moments`](Self::moments).
    #[inline(always)]
    pub(in super::super) unsafe fn moments_of_two(
        &self,
        octets: u32,
        values: impl Fn(usize, usize, usize) -> f32,
    ) -> [[f32; 2]; 2] {
        let mut sums = [0.0; 2];
        unroll!(16, |n| {
            if (n as u32) < octets {
                unroll!(2, |j| {
                    unroll!(2, |i| {
                        sums[i] += if self.has(n, j) { values(i, n, j) } else { 0.0 };
                    });
                });
            }
        });
        let means = [
            sum_of_quad(sums[0]) * self.each,
            sum_of_quad(sums[1]) * self.each,
        ];
        let mut m2 = [0.0; 2];
        unroll!(16, |n| {
            if (n as u32) < octets {
                unroll!(2, |j| {
                    unroll!(2, |i| {
                        let deviation = values(i, n, j) - means[i];
                        let deviation = if self.has(n, j) { deviation } else { 0.0 };
                        m2[i] = math::fma(deviation, deviation, m2[i]);
                    });
                });
            }
        });
        [
            [means[0], sum_of_quad(m2[0])],
            [means[1], sum_of_quad(m2[1])],
        ]
    }
}

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Stores the moments of the warp's pixels in shared memory.
    #[inline(always)]
    pub(super) unsafe fn take_moments(&self, sums: &Sums, place: &TileCoord) {
        let octets = S::TILE.pixel_octets;
        if self.is_whole(place) {
            self.take_moments_of(sums, &Inside::all(octets));
            return;
        }
        let coordinates = |n| self.pixels.load_vec::<2>(self.pixel_of(n));
        let inside = Inside::find(limits(&self.g, place), octets, coordinates);
        self.take_moments_of(sums, &inside);
    }

    /// Stores the moments of the pixels in `inside`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn take_moments_of(&self, sums: &Sums, inside: &Inside) {
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(2, |i| {
                    let values = |n: usize, j: usize| sums[m][n][2 * i + j];
                    let [mean, m2] = inside.moments(S::TILE.pixel_octets, values);
                    if self.thread.is_multiple_of(4) {
                        let stage = self.filter_of(m, i) * S::TILE.pixel_warps() + self.pixel_warp;
                        self.moments.store_vec(
                            stage * COUNTED_ELEMENTS as u32,
                            [inside.count, mean, m2, 0.0],
                        );
                    }
                });
            }
        });
    }

    /// Combines the moments of the warps, and writes the tile's moments.
    #[inline(always)]
    pub(super) unsafe fn write_moments(&self, place: &TileCoord, filters: &FilterSet) {
        let g = &self.g;
        let filter = self.thread;
        if filter < filters.count {
            let mut all = Moments::EMPTY;
            unroll!(4, |w| {
                if (w as u32) < S::TILE.pixel_warps() {
                    let stage = filter * S::TILE.pixel_warps() + w as u32;
                    let [count, mean, m2, _] =
                        self.moments.load_vec::<4>(stage * COUNTED_ELEMENTS as u32);
                    all = all.and(Moments { count, mean, m2 });
                }
            });
            let sign = self.channels.load(filter * 4 + 2);
            let tiles = g.pixel_tiles() as usize;
            let planes = g.conv.n as usize * g.conv.output_channels() as usize;
            let plane = self.first_plane(place, filters) + filter as usize;
            let at = plane * tiles + place.tile as usize;
            GlobalMut::new(self.output.moments, planes * tiles * COUNTED_ELEMENTS).store_vec(
                at * COUNTED_ELEMENTS,
                [all.count, sign * all.mean, all.m2, 0.0],
            );
        }
    }
}
