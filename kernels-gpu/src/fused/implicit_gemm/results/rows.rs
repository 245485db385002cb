//! A tile's results as they are.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, opaque};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::BLOCK_THREADS;

use super::super::format::Format;
use super::super::place::{FilterSet, Place};
use super::super::tile::TileShape;
use super::{Results, is_inside, limits};
use crate::parts::unroll::unroll;

/// The place of a pixel that is not in the output. No plane is as long as this.
const NOWHERE: u32 = u32::MAX;

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Writes the values as they are.
    #[inline(always)]
    pub(super) unsafe fn write_rows(&self, place: &Place, filters: &FilterSet) {
        let (g, conv) = (&self.g, &self.g.conv);
        // Whether every second pixel and the next one are neighbours in the output, from an even element on.
        let in_pairs = (conv.q | g.tile_w | g.tile_pitch | g.slice_pitch).is_multiple_of(2);
        if in_pairs {
            self.write_rows_of::<2>(place, filters);
        } else {
            self.write_rows_of::<1>(place, filters);
        }
    }

    /// The same, `TOGETHER` (1 or 2) pixels at a time: a warp takes a filter, its lanes consecutive pixels.
    #[inline(always)]
    unsafe fn write_rows_of<const TOGETHER: u32>(&self, place: &Place, filters: &FilterSet) {
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
        let mut filter = warp;
        let mut plane = (self.first_plane(place, filters) + warp as usize) * spatial;
        while filter < filters.count {
            unroll!(8, |i| {
                if (i as u32) * step < S::TILE.pixels() && positions[i] != NOWHERE {
                    let pixel = lane * TOGETHER + i as u32 * step;
                    let from = filter * Self::PITCH + pixel;
                    let to = plane + positions[i] as usize;
                    if TOGETHER == 2 {
                        let values = self.tile.load_vec::<2>(from);
                        y.store_vec(to, F::Stored::from_f32_pair(values));
                    } else {
                        y.store(to, F::Stored::from_f32(self.tile.load(from)));
                    }
                }
            });
            // Not unrolled: eight loads of one filter are enough that is in flight.
            filter = opaque::to_compiler(filter + BLOCK_THREADS / WARP_THREADS);
            plane += (BLOCK_THREADS / WARP_THREADS) as usize * spatial;
        }
    }
}
