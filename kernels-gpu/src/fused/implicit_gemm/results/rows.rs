//! The store of a tile's results without a pool.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{BLOCK_THREADS, K_VECTOR_WORDS, M32N128, M64N128};

use super::super::fixup::{Written, judged};
use super::super::format::Format;
use super::super::tile::TileShape;
use super::super::tile_coord::{FilterSet, TileCoord};
use super::{Results, is_inside, limits};
use crate::parts::unroll::unroll;

/// The values of a filter in each lane, in tiles whose kernels support convolutions without a norm.
const VALUES: u32 = 4;
const _: () = assert!(VALUES * WARP_THREADS == M64N128.pixels());
const _: () = assert!(VALUES * WARP_THREADS == M32N128.pixels());

/// The position of a pixel outside of the output. No plane is that long.
const NOWHERE: u32 = u32::MAX;

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Writes the values without pooling.
    #[inline(always)]
    pub(super) unsafe fn write_rows(&self, place: &TileCoord, filters: &FilterSet) {
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

    /// Writes `TOGETHER` (1 or 2) pixels at a time: a warp takes a filter, its lanes consecutive pixels.
    /// Without a norm, returns whether the thread has seen a NaN.
    #[inline(always)]
    unsafe fn write_rows_of<const TOGETHER: u32>(
        &self,
        place: &TileCoord,
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
        let mut seen = false;
        let mut filter = warp;
        let mut plane = (self.first_plane(place, filters) + warp as usize) * spatial;
        while filter < filters.count {
            // Evaluated for each filter, or the compiler would duplicate this loop.
            let is_without_norm =
                self.is_without_norm() && opaque::to_compiler(g.epilogue.code()) != 0;
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
            let is_there =
                |i: usize| (i as u32) * step < S::TILE.pixels() && positions[i] != NOWHERE;
            let mut values = [[0.0; 2]; 8];
            unroll!(8, |i| {
                if is_there(i) {
                    let from = filter * Self::PITCH + lane * TOGETHER + i as u32 * step;
                    if TOGETHER == 2 {
                        values[i] = self.tile.load_vec::<2>(from).map(&mut mapped);
                    } else {
                        values[i][0] = mapped(self.tile.load(from));
                    }
                }
            });
            if is_without_norm && !self.output.without_norm.list.is_empty() {
                self.list::<TOGETHER>(&mut values, filters.first_channel + filter);
            }
            unroll!(8, |i| {
                if is_there(i) {
                    let to = plane + positions[i] as usize;
                    if TOGETHER == 2 {
                        y.store_vec(to, F::Stored::from_f32_pair(values[i]));
                    } else {
                        y.store(to, F::Stored::from_f32(values[i][0]));
                    }
                }
            });
            // Not unrolled: eight loads of one filter in flight are enough.
            filter = opaque::to_compiler(filter + BLOCK_THREADS / WARP_THREADS);
            plane += (BLOCK_THREADS / WARP_THREADS) as usize * spatial;
        }
        seen
    }

    /// Rounds a channel's values to the storage type and applies the operand list to them: to both values of
    /// each pair if `TOGETHER` is 2, else to the first.
    #[inline(always)]
    unsafe fn list<const TOGETHER: u32>(&self, values: &mut [[f32; 2]; 8], channel: u32) {
        // Tiles whose kernels support operand lists have four values in each lane.
        if S::TILE.pixels() != VALUES * WARP_THREADS {
            return;
        }
        let [[a, b], [c, d], [e, _], [g, _], ..] = *values;
        let pairs = if TOGETHER == 2 {
            [[a, b], [c, d]]
        } else {
            [[a, c], [e, g]]
        };
        let rounded = pairs.map(|pair| F::Stored::to_f32_pair(F::Stored::from_f32_pair(pair)));
        let ([a, b], [c, d]) = (rounded[0], rounded[1]);
        let without_norm = &self.output.without_norm;
        let channels = self.g.conv.output_channels();
        let [a, b, c, d] =
            without_norm.listed::<F::Accuracy, 4>([a, b, c, d], None, (channel, channels));
        if TOGETHER == 2 {
            (values[0], values[1]) = ([a, b], [c, d]);
        } else {
            [values[0][0], values[1][0], values[2][0], values[3][0]] = [a, b, c, d];
        }
    }
}
