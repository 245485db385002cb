//! Pooling of a tile's results.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, math};
use op_spec::launch::implicit_gemm::BLOCK_THREADS;

use super::format::Format;
use super::patch::{FilterSet, Place, unpacked};
use super::product::Shape;
use super::results::Results;
use crate::parts::extrema::{is_reversed, largest_of_window};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

impl<F: Format, S: Shape> Results<'_, F, S> {
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

    /// Writes of each whole window the value that will be the largest after norm and scale.
    #[inline(always)]
    pub(super) unsafe fn write_windows(&self, place: &Place, filters: &FilterSet) {
        let (values, pitch) = (self.tile, self.g.tile_pitch);
        // The usual windows are written out.
        match (self.g.pool_h, self.g.pool_w) {
            (2, 2) if pitch.is_multiple_of(2) => self.write_windows_of(place, filters, |first| {
                let [a, b] = values.load_vec::<2>(first);
                let [c, d] = values.load_vec::<2>(first + pitch);
                math::max_nan(math::max_nan(a, b), math::max_nan(c, d))
            }),
            (3, 3) => self.write_windows_of(place, filters, |first| {
                let mut largest = [f32::NEG_INFINITY; 3];
                unroll!(4, |row| {
                    unroll!(4, |column| {
                        if row < 3 && column < 3 {
                            let value = values.load(first + row as u32 * pitch + column as u32);
                            largest[column % 3] = math::max_nan(largest[column % 3], value);
                        }
                    });
                });
                math::max_nan(math::max_nan(largest[0], largest[1]), largest[2])
            }),
            (4, 4) if pitch.is_multiple_of(4) => self.write_windows_of(place, filters, |first| {
                let mut largest = [f32::NEG_INFINITY; 4];
                unroll!(4, |row| {
                    let of_row = values.load_vec::<4>(first + row as u32 * pitch);
                    unroll!(4, |i| {
                        largest[i] = math::max_nan(largest[i], of_row[i]);
                    });
                });
                let [a, b, c, d] = largest;
                math::max_nan(math::max_nan(a, b), math::max_nan(c, d))
            }),
            (rows, columns) => self.write_windows_of(place, filters, |first| {
                largest_of_window(values, first, pitch, rows, columns)
            }),
        }
    }

    /// The same; `largest` takes the largest value of the window whose first element of the tile it is given.
    ///
    /// A thread keeps its window and takes it of one filter after another, so that only addresses change. Where
    /// windows do not divide the threads, some threads have nothing to do.
    #[inline(always)]
    unsafe fn write_windows_of(
        &self,
        place: &Place,
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
            let [first, row, column] = unpacked(self.windows.load(window));
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
