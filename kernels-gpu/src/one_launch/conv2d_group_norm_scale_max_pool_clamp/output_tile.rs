//! The mainloop of an output tile: MMAs, sums for the statistics, and window maxima.

use cuda_std::mbarrier::Barrier;
use cuda_std::wgmma::InFlight;
use cuda_std::{math, warp, wgmma};
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    PIXEL_BYTES, TILE_ROWS, WIDTH,
};

use super::format::Format;
use super::memory::Memory;
use crate::parts::lanes::sum_of_quad;
use crate::parts::unroll::unroll;

/// The accumulators of a thread. Of each output row it has channels `channel` and `channel + 8`, and of each
/// of these the columns `8 * o + 2 * quad_lane + e` of every stride phase, for `o < 4` and `e < 2`: eight
/// pooling windows.
pub(super) struct Place {
    pub(super) warpgroup: u32,
    pub(super) lane: u32,
    pub(super) quad_lane: u32,
    pub(super) channel: u32,
    /// Whether the thread has the last window, of which the convolution's output has only two columns.
    pub(super) edge: bool,
    /// Reciprocal scales of the filters of the two channels.
    pub(super) descale: [f32; 2],
}

/// The accumulator of channel `h`, stride phase `f`, octet `o`, element `e`.
const fn at(h: usize, f: usize, o: usize, e: usize) -> usize {
    (f * 4 + o) * 4 + 2 * h + e
}

/// Running sums of a thread's two channels over a sample.
pub(super) struct Sums {
    /// The value about which the sums are taken.
    pub(super) shift: [f32; 2],
    /// The shift as the MMAs subtract it: at their scale, and rounded to two 16-bit operands.
    pub(super) folded: [f32; 2],
    /// Sum of `output - shift`.
    pub(super) sum: [f32; 2],
    /// Sum of `(output - shift)^2`.
    pub(super) squares: [f32; 2],
    /// Output rows in the sums.
    pub(super) rows: u32,
}

/// Arrives at `empty[stage]`: the MMAs of this warp for the stage's output tile are complete.
#[inline(always)]
pub(super) unsafe fn release_stage(memory: &Memory, stage: u32, lane: u32) {
    warp::sync_warp(warp::ALL_LANES);
    if lane == 0 {
        Barrier::at(memory.empty, stage).arrive();
    }
}

/// Four rows of the convolution, fewer at the end of a half: one pooled row.
pub(super) struct OutputTile {
    pub(super) stage: u32,
    pub(super) next_stage: u32,
    pub(super) rows: u32,
    /// Reciprocal scale of the input.
    pub(super) input_descale: f32,
}

impl OutputTile {
    /// The reciprocal of both scales for channel `h` of the thread.
    #[inline(always)]
    pub(super) const fn descale<F: Format>(&self, place: &Place, h: usize) -> f32 {
        if F::SCALED {
            self.input_descale * place.descale[h]
        } else {
            1.0
        }
    }

    /// Adds the output tile to the sums, and returns the maximum of each window, at the MMAs' scale and less
    /// `sums.folded`.
    #[inline(always)]
    pub(super) unsafe fn multiply<F: Format>(
        &self,
        memory: &Memory,
        filters: &mut F::Filters,
        sums: &mut Sums,
        place: &Place,
    ) -> [[[f32; 2]; 4]; 2] {
        let descale = [self.descale::<F>(place, 0), self.descale::<F>(place, 1)];
        let scale = [1.0 / descale[0], 1.0 / descale[1]];
        if F::SCALED && sums.rows > 0 {
            unroll!(2, |h| {
                let (value, word) = fold::<F>(sums.shift[h] * scale[h], place.quad_lane);
                sums.folded[h] = value;
                F::set_constant(filters, h, word);
            });
        }
        let rows = self.input_rows::<F>(memory);
        let constant = wgmma::unit(memory.constant.addr(0));
        let mut of = TileReduction {
            best: [[[f32::NEG_INFINITY; 2]; 4]; 2],
            // Without a scale, the sums of the sample are continued directly.
            sum: if F::SCALED { [0.0; 2] } else { sums.sum },
            squares: if F::SCALED { [0.0; 2] } else { sums.squares },
        };
        if sums.rows > 0 && self.rows == TILE_ROWS {
            // Each half is reduced while the tensor cores compute the next one.
            let left = start::<F, false>(filters, &rows, 0, 0, constant);
            let right = start::<F, false>(filters, &rows, 0, 1, constant);
            of.reduce::<0>(&left.wait::<1>(), place.edge);
            let left = start::<F, false>(filters, &rows, 1, 0, constant);
            of.reduce::<1>(&right.wait::<1>(), place.edge);
            let right = start::<F, false>(filters, &rows, 1, 1, constant);
            of.reduce::<0>(&left.wait::<1>(), place.edge);
            let left = start::<F, false>(filters, &rows, 2, 0, constant);
            of.reduce::<1>(&right.wait::<1>(), place.edge);
            let right = start::<F, false>(filters, &rows, 2, 1, constant);
            of.reduce::<0>(&left.wait::<1>(), place.edge);
            let left = start::<F, true>(filters, &rows, 3, 0, constant);
            of.reduce::<1>(&right.wait::<1>(), place.edge);
            let right = start::<F, true>(filters, &rows, 3, 1, constant);
            of.reduce::<0>(&left.wait::<1>(), place.edge);
            let right = right.wait::<0>();
            release_stage(memory, self.stage, place.lane);
            of.reduce::<1>(&right, place.edge);
            sums.rows += TILE_ROWS;
        } else {
            let mut rows = rows;
            let mut y = 0;
            while y < self.rows {
                let (mut left, mut right);
                if y + 1 == TILE_ROWS {
                    let first = start::<F, true>(filters, &rows, 0, 0, constant);
                    let second = start::<F, true>(filters, &rows, 0, 1, constant);
                    left = first.wait::<1>();
                    right = second.wait::<0>();
                } else {
                    let first = start::<F, false>(filters, &rows, 0, 0, constant);
                    let second = start::<F, false>(filters, &rows, 0, 1, constant);
                    left = first.wait::<1>();
                    right = second.wait::<0>();
                }
                if y + 1 == self.rows {
                    release_stage(memory, self.stage, place.lane);
                }
                if sums.rows == 0 {
                    unroll!(2, |h| {
                        let mean = mean_of_half_row(&left, h);
                        let (value, word) = fold::<F>(mean, place.quad_lane);
                        sums.folded[h] = value;
                        sums.shift[h] = value * descale[h];
                        F::set_constant(filters, h, word);
                        unroll!(2, |f| {
                            unroll!(4, |o| {
                                unroll!(2, |e| {
                                    left[at(h, f, o, e)] -= value;
                                    right[at(h, f, o, e)] -= value;
                                });
                            });
                        });
                    });
                }
                of.reduce::<0>(&left, place.edge);
                of.reduce::<1>(&right, place.edge);
                sums.rows += 1;
                rows = [rows[1], rows[2], rows[3], rows[4], rows[5], 0];
                y += 1;
            }
        }
        let TileReduction { best, sum, squares } = of;

        let columns = if place.edge { 30 } else { 32 };
        let count = (self.rows * columns) as f32;
        unroll!(2, |h| {
            if F::SCALED {
                // Convert sums about `folded` to sums about the shift. The two differ by rounding, and only
                // after a change of scale.
                let off = sums.folded[h] - sums.shift[h] * scale[h];
                let s = math::fma(count, off, sum[h]);
                let q = math::fma(off, math::fma(count, off, 2.0 * sum[h]), squares[h]);
                sums.sum[h] = math::fma(s, descale[h], sums.sum[h]);
                sums.squares[h] = math::fma(q * descale[h], descale[h], sums.squares[h]);
            } else {
                sums.sum[h] = sum[h];
                sums.squares[h] = squares[h];
            }
        });
        best
    }

    /// Start addresses of the six input rows of the output tile, in units of 16 bytes.
    #[inline(always)]
    fn input_rows<F: Format>(&self, memory: &Memory) -> [u32; 6] {
        let pipeline = wgmma::unit(memory.pipeline.addr(0));
        let row = F::CONFIG.row_bytes() / PIXEL_BYTES;
        let first = pipeline + self.stage * TILE_ROWS * row;
        let next = pipeline + self.next_stage * TILE_ROWS * row;
        [
            first,
            first + row,
            first + 2 * row,
            first + 3 * row,
            next,
            next + row,
        ]
    }
}

/// Window maxima and sums of an output tile.
struct TileReduction {
    best: [[[f32; 2]; 4]; 2],
    sum: [f32; 2],
    squares: [f32; 2],
}

impl TileReduction {
    /// Adds the accumulators `d` of half a row.
    #[inline(always)]
    fn reduce<const HALF: usize>(&mut self, d: &[f32; 32], edge: bool) {
        unroll!(2, |h| {
            // Two independent accumulators halve the latency of the additions.
            let (mut s, mut q) = ([0.0; 2], [0.0; 2]);
            unroll!(2, |f| {
                unroll!(4, |o| {
                    unroll!(2, |e| {
                        let value = d[at(h, f, o, e)];
                        let counted = inside(value, 2 * HALF + f, o, e, edge);
                        s[e] += counted;
                        q[e] = math::fma(counted, counted, q[e]);
                        self.best[h][o][e] = math::max(self.best[h][o][e], value);
                    });
                });
            });
            self.sum[h] += s[0] + s[1];
            self.squares[h] += q[0] + q[1];
        });
    }
}

/// Starts the MMA batch of half `half` of output row `y`.
#[inline(always)]
unsafe fn start<F: Format, const CROSSING: bool>(
    filters: &F::Filters,
    rows: &[u32; 6],
    y: usize,
    half: u32,
    constant: u32,
) -> InFlight {
    let shift = half * WIDTH / 2;
    let rows = [rows[y] + shift, rows[y + 1] + shift, rows[y + 2] + shift];
    F::start::<CROSSING>(filters, rows, constant + shift)
}

/// `value`, or 0 where its column lies beyond the convolution's output.
#[inline(always)]
const fn inside(value: f32, f: usize, o: usize, e: usize, edge: bool) -> f32 {
    if f >= 2 && o == 3 && e == 1 && edge {
        0.0
    } else {
        value
    }
}

/// The mean of channel `h` over the first half of an output row: the first two of every four columns.
#[inline(always)]
unsafe fn mean_of_half_row(d: &[f32; 32], h: usize) -> f32 {
    let mut sum = [0.0; 2];
    unroll!(2, |f| {
        unroll!(4, |o| {
            unroll!(2, |e| {
                sum[e] += d[at(h, f, o, e)];
            });
        });
    });
    sum_of_quad(sum[0] + sum[1]) * (2.0 / WIDTH as f32)
}

/// `shift` as two 16-bit operands: the value that they subtract, and this thread's word of the A fragment.
/// Only the thread with the first two columns of K has a non-zero word.
#[inline(always)]
fn fold<F: Format>(shift: f32, quad_lane: u32) -> (f32, u32) {
    // Any value serves as a shift. So values beyond f16's range are clamped, and NaN (which makes the sample
    // NaN anyway) becomes 0.
    const MOST: f32 = 30_000.0;
    let shift = shift * (1.0 / F::CONSTANT);
    let shift = if shift.is_nan() {
        0.0
    } else {
        math::max(-MOST, math::min(shift, MOST))
    };
    let high = F::round(shift);
    let low = F::round(shift - high);
    let word = if quad_lane == 0 {
        F::pack(-high, -low)
    } else {
        0
    };
    ((high + low) * F::CONSTANT, word)
}
