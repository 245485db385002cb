//! Pooling of a tile's results.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, math, thread};
use op_spec::launch::implicit_gemm::BLOCK_THREADS;

use super::format::Format;
use super::patch::{Place, unpacked};
use super::product::Shape;
use super::results::Results;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

impl<F: Format, S: Shape> Results<'_, F, S> {
    /// Whether norm and scale reverse the order of a channel's values.
    #[inline(always)]
    pub(super) unsafe fn reversed(&self, channel: usize) -> bool {
        let channels = self.g.conv.output_channels() as usize;
        let negative = |factors: *const F::Stored| {
            !factors.is_null()
                && Global::new(factors, channels)
                    .load_readonly(channel)
                    .to_f32()
                    < 0.0
        };
        negative(self.output.norm_weight) != negative(self.output.scale)
    }

    /// The largest value of the window that starts at element `first` of the results.
    #[inline(always)]
    unsafe fn largest_of_window(&self, first: u32) -> f32 {
        let g = self.g;
        let mut largest = [f32::NEG_INFINITY; 4];
        let mut row = first;
        let end = first + g.pool_h * g.tile_w;
        // Four loads in flight, in one instruction where rows of windows are vectors.
        if g.pool_w == 4 {
            while row < end {
                let values = self.tile.load_vec::<4>(row);
                unroll!(4, |i| {
                    largest[i] = math::max_nan(largest[i], values[i]);
                });
                row += g.tile_w;
            }
        } else if g.pool_w == 2 {
            while row < end {
                let values = self.tile.load_vec::<2>(row);
                unroll!(2, |i| {
                    largest[i] = math::max_nan(largest[i], values[i]);
                });
                row += g.tile_w;
            }
        } else {
            while row < end {
                let mut s = 0;
                while s < g.pool_w {
                    unroll!(4, |i| {
                        if s + (i as u32) < g.pool_w {
                            let value = self.tile.load(row + s + i as u32);
                            largest[i] = math::max_nan(largest[i], value);
                        }
                    });
                    s += 4;
                }
                row += g.tile_w;
            }
        }
        let [a, b, c, d] = largest;
        math::max_nan(math::max_nan(a, b), math::max_nan(c, d))
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
                let largest = self.largest_of_window(filter * Self::PITCH + first);
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
