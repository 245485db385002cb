//! Pooling of a tile's results.

use cuda_std::Storage;
use cuda_std::global::GlobalMut;
use launch_config::implicit_gemm::BLOCK_THREADS;

use super::super::format::Format;
use super::super::tables::from_word;
use super::super::tile::TileShape;
use super::super::tile_coord::{FilterSet, TileCoord};
use super::Results;
use crate::parts::extrema::{is_reversed, largest_of_square, largest_of_window};
use crate::parts::index::div_rem;

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Whether norm and scale reverse the order of a channel's values.
    #[inline(always)]
    pub(super) unsafe fn reversed(&self, channel: usize) -> bool {
        let channels = self.g.conv.output_channels() as usize;
        is_reversed(
            self.output.norm_weight,
            self.output.scale,
            channels,
            channel,
        )
    }

    /// Writes, for each whole window, the value that will be the largest after norm and scale.
    #[inline(always)]
    pub(super) unsafe fn write_windows(&self, place: &TileCoord, filters: &FilterSet) {
        let (values, pitch) = (self.tile, self.g.tile_pitch);
        // The usual windows are unrolled.
        macro_rules! square {
            ($extent:literal by $together:literal) => {
                self.write_windows_of(place, filters, |first| {
                    largest_of_square::<$extent, $together>(values, first, pitch)
                })
            };
        }
        let (pairs, fours) = (pitch.is_multiple_of(2), pitch.is_multiple_of(4));
        match (self.g.pool_h, self.g.pool_w) {
            (2, 2) if pairs => square!(2 by 2),
            (3, 3) => square!(3 by 1),
            (4, 4) if fours => square!(4 by 4),
            (4, 4) if pairs => square!(4 by 2),
            (5, 5) => square!(5 by 1),
            (6, 6) if pairs => square!(6 by 2),
            (7, 7) => square!(7 by 1),
            (rows, columns) => self.write_windows_of(place, filters, |first| {
                largest_of_window(values, first, pitch, rows, columns)
            }),
        }
    }

    /// Writes the windows. `largest` returns the largest value of the window that starts at an element of the
    /// tile.
    ///
    /// A thread keeps its window and takes one filter after another, so that only addresses change. If
    /// windows do not divide the threads, some threads are idle.
    #[inline(always)]
    unsafe fn write_windows_of(
        &self,
        place: &TileCoord,
        filters: &FilterSet,
        largest: impl Fn(u32) -> f32,
    ) {
        let g = &self.g;
        let (first_p, _) = div_rem(place.p, g.pool_h);
        let (first_q, _) = div_rem(place.q, g.pool_w);
        let spatial = (g.pooled_h * g.pooled_w) as usize;
        let planes = g.conv.n as usize * g.conv.output_channels() as usize;
        let y = GlobalMut::new(self.output.y, planes * spatial);
        let side_by_side = g.windows().min(BLOCK_THREADS);
        let (filter_step, _) = div_rem(BLOCK_THREADS, side_by_side);
        let (first_filter, mut window) = div_rem(self.thread, side_by_side);
        if first_filter >= filter_step {
            return;
        }
        while window < g.windows() {
            let [first, row, column] = from_word(self.windows.load(window));
            let (p, q) = (first_p + row, first_q + column);
            if p < g.pooled_h && q < g.pooled_w {
                let plane = self.first_plane(place, filters) + first_filter as usize;
                let mut at = plane * spatial + (p * g.pooled_w + q) as usize;
                let mut filter = first_filter;
                while filter < filters.count {
                    let sign = self.channels.load(filter * 4 + 2);
                    let value = sign * largest(filter * Self::PITCH + first);
                    y.store(at, F::Stored::from_f32(value));
                    filter += filter_step;
                    at += filter_step as usize * spatial;
                }
            }
            window += side_by_side;
        }
    }
}
