//! Moments of a tile's results.

use cuda_std::global::GlobalMut;
use cuda_std::{math, warp};
use op_spec::launch::norm::COUNTED_ELEMENTS;

use super::super::format::Format;
use super::super::place::{FilterSet, Place};
use super::super::tile::{Sums, TileShape};
use super::Results;
use crate::parts::lanes::sum_of_quad;
use crate::parts::moments::Moments;
use crate::parts::unroll::unroll;

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Leaves the moments of the warp's pixels in shared memory.
    #[inline(always)]
    pub(super) unsafe fn take_moments(&self, sums: &Sums, place: &Place) {
        if self.is_whole(place) {
            self.take_moments_of(sums, u32::MAX, S::TILE.warp_pixels() as f32);
            return;
        }
        let limits = self.limits(place);
        let mut inside = 0;
        unroll!(16, |n| {
            if (n as u32) < S::TILE.pixel_octets {
                let pixels = self.pixels.load_vec::<2>(self.pixel_of(n));
                unroll!(2, |j| {
                    inside |= u32::from(Self::is_inside(limits, pixels[j])) << (2 * n + j);
                });
            }
        });
        warp::sync_warp(warp::ALL_LANES);
        let count = sum_of_quad(inside.count_ones() as f32);
        self.take_moments_of(sums, inside, count);
    }

    /// The same, of the pixels that are inside, `count` of them in the warp: those of octet `n` are bits `2 * n`
    /// and one more.
    #[inline(always)]
    unsafe fn take_moments_of(&self, sums: &Sums, inside: u32, count: f32) {
        let is_inside = |n: usize, j: usize| inside & 1 << (2 * n + j) != 0;
        let each = if count > 0.0 {
            math::reciprocal_approx(count)
        } else {
            0.0
        };
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(2, |i| {
                    let mut sum = 0.0;
                    unroll!(16, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            unroll!(2, |j| {
                                let value = sums[m][n][2 * i + j];
                                sum += if is_inside(n, j) { value } else { 0.0 };
                            });
                        }
                    });
                    let mean = sum_of_quad(sum) * each;
                    let mut m2 = 0.0;
                    unroll!(16, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            unroll!(2, |j| {
                                let deviation = sums[m][n][2 * i + j] - mean;
                                let deviation = if is_inside(n, j) { deviation } else { 0.0 };
                                m2 = math::fma(deviation, deviation, m2);
                            });
                        }
                    });
                    let m2 = sum_of_quad(m2);
                    if self.thread.is_multiple_of(4) {
                        let slot = self.filter_of(m, i) * S::TILE.pixel_warps() + self.pixel_warp;
                        self.moments
                            .store_vec(slot * COUNTED_ELEMENTS as u32, [count, mean, m2, 0.0]);
                    }
                });
            }
        });
    }

    /// Combines the moments of the warps, and writes those of the tile.
    #[inline(always)]
    pub(super) unsafe fn write_moments(&self, place: &Place, filters: &FilterSet) {
        let g = &self.g;
        let filter = self.thread;
        if filter < filters.count {
            let mut all = Moments::EMPTY;
            unroll!(4, |w| {
                if (w as u32) < S::TILE.pixel_warps() {
                    let slot = filter * S::TILE.pixel_warps() + w as u32;
                    let [count, mean, m2, _] =
                        self.moments.load_vec::<4>(slot * COUNTED_ELEMENTS as u32);
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
