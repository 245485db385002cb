//! The store of a tile's results without a pool.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{BLOCK_THREADS, K_VECTOR_WORDS};
use launch_config::pointwise::ResidualList;

use super::super::fixup::{Written, judged};
use super::super::format::Format;
use super::super::place::{FilterSet, Place};
use super::super::tile::TileShape;
use super::{Results, is_inside, limits};
use crate::parts::moments::stored;
use crate::parts::pointwise::apply_and_add;
use crate::parts::unroll::unroll;

/// The position of a pixel beyond the output. No plane is that long.
const NOWHERE: u32 = u32::MAX;

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Writes the values without pooling.
    #[inline(always)]
    pub(super) unsafe fn write_rows(&self, place: &Place, filters: &FilterSet) {
        let (g, conv) = (&self.g, &self.g.conv);
        // Whether each aligned pair of pixels is contiguous in the output.
        let in_pairs = g.neighbours().is_multiple_of(2);
        let seen = if in_pairs {
            self.write_rows_of::<2>(place, filters)
        } else {
            self.write_rows_of::<1>(place, filters)
        };
        if self.is_without_norm() {
            let planes = conv.n as usize * conv.output_channels() as usize;
            let written = Written {
                without_norm: &self.output.without_norm,
                y: GlobalMut::new(self.output.y, planes * conv.output_pixels() as usize),
                g,
                place,
                output_d: 0,
                pixels: self.pixels,
                channels: self.channels,
                first_filter: self.thread / WARP_THREADS,
                filter_step: BLOCK_THREADS / WARP_THREADS,
                filters_end: filters.count,
                first_channel: filters.first_channel,
                first_pixel: 0,
                pixels_end: S::TILE.pixels(),
            };
            written.fix_up::<false>(seen);
        }
    }

    /// The same, `TOGETHER` (1 or 2) pixels at a time: a warp takes a filter, its lanes consecutive pixels.
    /// Without a norm, returns whether the thread has seen a NaN.
    #[inline(always)]
    unsafe fn write_rows_of<const TOGETHER: u32>(
        &self,
        place: &Place,
        filters: &FilterSet,
    ) -> bool {
        let (g, conv) = (&self.g, &self.g.conv);
        let spatial = conv.output_pixels() as usize;
        let planes = conv.n as usize * conv.output_channels() as usize;
        let y = GlobalMut::new(self.output.y, planes * spatial);
        let (warp, lane) = (self.thread / WARP_THREADS, self.thread % WARP_THREADS);
        let limits = limits(g, place);
        let first = (place.z * conv.p + place.p) * conv.q + place.q;
        let step = WARP_THREADS * TOGETHER;
        let mut positions = [NOWHERE; 8];
        unroll!(8, |i| {
            let pixel = lane * TOGETHER + i as u32 * step;
            if pixel < S::TILE.pixels() && is_inside(limits, self.pixels.load(pixel)) {
                positions[i] = first + self.positions.load(pixel);
            }
        });
        let list = self.output.without_norm.store.list;
        let mut seen = false;
        let mut filter = warp;
        let mut plane = (self.first_plane(place, filters) + warp as usize) * spatial;
        while filter < filters.count {
            // Evaluated for each filter, or the compiler would duplicate this loop.
            let is_without_norm = self.is_without_norm()
                && (list.is_some() || opaque::to_compiler(g.epilogue.code()) != 0);
            let mut map = [0.0; 2];
            if is_without_norm {
                map = self.channels.load_vec::<2>(filter * K_VECTOR_WORDS + 2);
            }
            let mut mapped = |value: f32| {
                if !is_without_norm {
                    return value;
                }
                let value = judged::<F>(value);
                seen |= value.is_nan();
                self.output.without_norm.store.map(map, value)
            };
            if let Some(list) = list {
                let from = filter * Self::PITCH + lane * TOGETHER;
                let rounded = |i: u32| {
                    let mut pair = [mapped(self.tile.load(from + i * step)), 0.0];
                    if TOGETHER == 2 {
                        pair[1] = mapped(self.tile.load(from + i * step + 1));
                    }
                    stored::<F::Stored>(pair)
                };
                self.write_list::<TOGETHER>(list, &positions, plane, rounded);
            } else {
                unroll!(8, |i| {
                    if (i as u32) * step < S::TILE.pixels() && positions[i] != NOWHERE {
                        let pixel = lane * TOGETHER + i as u32 * step;
                        let from = filter * Self::PITCH + pixel;
                        let to = plane + positions[i] as usize;
                        if TOGETHER == 2 {
                            let values = self.tile.load_vec::<2>(from).map(&mut mapped);
                            y.store_vec(to, F::Stored::from_f32_pair(values));
                        } else {
                            let value = mapped(self.tile.load(from));
                            y.store(to, F::Stored::from_f32(value));
                        }
                    }
                });
            }
            // Not unrolled: eight loads of one filter in flight are enough.
            filter = opaque::to_compiler(filter + BLOCK_THREADS / WARP_THREADS);
            plane += (BLOCK_THREADS / WARP_THREADS) as usize * spatial;
        }
        seen
    }

    /// Writes the results of one filter's `plane` through the epilogue's list, two positions at a time.
    /// `rounded` gives `TOGETHER` values of each position.
    #[inline(always)]
    unsafe fn write_list<const TOGETHER: u32>(
        &self,
        list: &ResidualList,
        positions: &[u32; 8],
        plane: usize,
        mut rounded: impl FnMut(u32) -> [f32; 2],
    ) {
        let conv = &self.g.conv;
        let elements =
            conv.n as usize * conv.output_channels() as usize * conv.output_pixels() as usize;
        let y = GlobalMut::new(self.output.y, elements);
        let residual = Global::new(self.output.without_norm.store.residual, elements);
        let mut here = *positions;
        let mut first = 0;
        loop {
            opaque::not_unrolled();
            let [mut values, mut added] = [[0.0; 4]; 2];
            unroll!(2, |i| {
                if here[i] != NOWHERE {
                    let at = plane + here[i] as usize;
                    if list.adds() && TOGETHER == 2 {
                        let pair = residual.load_vec::<2>(at);
                        [added[2 * i], added[2 * i + 1]] = F::Stored::to_f32_pair(pair);
                    } else if list.adds() {
                        added[2 * i] = residual.load(at).to_f32();
                    }
                    [values[2 * i], values[2 * i + 1]] = rounded(first + i as u32);
                }
            });
            let values = apply_and_add::<F::Stored, 4>(list, values, added);
            unroll!(2, |i| {
                if here[i] != NOWHERE {
                    let at = plane + here[i] as usize;
                    let pair = F::Stored::from_f32_pair([values[2 * i], values[2 * i + 1]]);
                    if TOGETHER == 2 {
                        y.store_vec(at, pair);
                    } else {
                        y.store(at, pair[0]);
                    }
                }
            });
            if first == 6 {
                break;
            }
            first = opaque::to_compiler(first + 2);
            let [a, b, c, d, e, f, g, h] = here;
            here = [c, d, e, f, g, h, a, b];
        }
    }
}
