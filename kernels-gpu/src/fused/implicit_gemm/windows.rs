//! Pooling of a tile's results.

use cuda_std::global::GlobalMut;
use cuda_std::{Storage, thread};
use op_spec::launch::implicit_gemm::BLOCK_THREADS;

use super::format::Format;
use super::patch::{Place, unpacked};
use super::product::Shape;
use super::results::Results;
use crate::parts::extrema::{is_reversed, largest_of_window};
use crate::parts::index::div_rem;

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
    pub(super) unsafe fn write_windows(&self, place: &Place) {
        let g = self.g;
        let windows = g.windows();
        let (filter_step, window_step) = div_rem(BLOCK_THREADS, windows);
        let (mut filter, mut window) = div_rem(thread::thread_idx_x(), windows);
        let (first_p, _) = div_rem(place.p, g.pool_h);
        let (first_q, _) = div_rem(place.q, g.pool_w);
        let spatial = (g.pooled_h * g.pooled_w) as usize;
        let planes = g.conv.n as usize * g.conv.output_channels() as usize;
        let y = GlobalMut::new(self.output.y, planes * spatial);
        while filter < S::TILE.filters() {
            let [first, row, column] = unpacked(self.windows.load(window));
            let (p, q) = (first_p + row, first_q + column);
            if p < g.pooled_h
                && q < g.pooled_w
                && let Some(channel) = self.channel(filter)
            {
                let sign = self.channels.load(filter * 4 + 2);
                let first = filter * Self::PITCH + first;
                let largest = largest_of_window(self.tile, first, g.tile_pitch, g.pool_h, g.pool_w);
                let at = self.plane(place, channel) * spatial + (p * g.pooled_w + q) as usize;
                y.store(at, F::Stored::from_f32(sign * largest));
            }
            filter += filter_step;
            window += window_step;
            if window >= windows {
                window -= windows;
                filter += 1;
            }
        }
    }
}
