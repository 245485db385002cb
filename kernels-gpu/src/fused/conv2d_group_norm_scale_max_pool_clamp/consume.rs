//! The multiplying warpgroups.

use cuda_std::global::Global;
use cuda_std::mbarrier::Barrier;
use cuda_std::wgmma::InFlight;
use cuda_std::{async_proxy, barrier, cluster, math, opaque, thread, warp, wgmma};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::conv2d_group_norm_scale_max_pool_clamp::{
    BAND_ROWS, CHANNEL_FLOATS, OUT_WIDTH, OneLaunch2dGeometry, PIXEL_BYTES, WARPGROUP_THREADS,
    WIDTH,
};

use super::Arguments;
use super::format::Format;
use super::memory::Memory;
use super::statistics::{self, Moments};
use crate::parts::unroll::unroll;

/// The named barrier of all multiplying warpgroups.
pub(super) const MULTIPLIERS: u32 = 2;

/// A thread's place in the products. Of each row it has two channels, `channel` and 8 more, and of each of those
/// columns `8 * o + 2 * quad_lane + e` of every residue, with `o` below 4 and `e` below 2: eight windows.
pub(super) struct Place {
    pub warpgroup: u32,
    pub lane: u32,
    pub quad_lane: u32,
    pub channel: u32,
    /// Whether the thread has the last window, which the image cuts after two columns.
    pub edge: bool,
    /// What undoes the scales of its channels' filters.
    pub descale: [f32; 2],
}

/// Accumulator of channel `h`, residue `f`, octet `o`, element `e`.
const fn at(h: usize, f: usize, o: usize, e: usize) -> usize {
    (f * 4 + o) * 4 + 2 * h + e
}

/// What a thread knows of its two channels of a sample.
struct Sums {
    /// About what statistics are taken.
    shift: [f32; 2],
    /// What the products subtract, scaled as they are: as good as the shift.
    folded: [f32; 2],
    /// Sums of the outputs less the shift, and of their squares.
    sum: [f32; 2],
    squares: [f32; 2],
    rows: u32,
}

/// Multiplies all window rows of this warpgroup, and finishes each sample.
///
/// # Safety
/// As the kernels; the callers are the multiplying warpgroups, all of them, with their own `warpgroup`.
#[inline(always)]
pub(super) unsafe fn consume<F: Format>(
    arguments: &Arguments<F::Stored>,
    g: &OneLaunch2dGeometry,
    memory: &Memory,
    warpgroup: u32,
) {
    let thread = thread::thread_idx_x() % WARPGROUP_THREADS;
    let lane = thread % WARP_THREADS;
    let mut place = Place {
        warpgroup,
        lane,
        quad_lane: lane % 4,
        channel: thread / WARP_THREADS * 16 + lane / 4,
        edge: lane % 4 == 3,
        descale: [1.0; 2],
    };
    let threads = F::CONFIG.consumers * WARPGROUP_THREADS;
    let among = warpgroup * WARPGROUP_THREADS + thread;

    let words = F::CONFIG.operand_words() as usize;
    let mut filters = F::filters(Global::new(arguments.filters, words), thread);
    let channels = Global::new(arguments.channels, CHANNEL_FLOATS as usize);
    if among < CHANNEL_FLOATS {
        memory
            .channels
            .store(among, channels.load_readonly(among as usize));
    }
    let mut at = among * 4;
    while at < WIDTH * PIXEL_BYTES / 4 {
        memory
            .constant
            .store_vec(at, [F::pack(F::CONSTANT, F::CONSTANT); 4]);
        at += threads * 4;
    }
    async_proxy::fence_shared();
    barrier::sync(MULTIPLIERS, threads);
    unroll!(2, |h| {
        place.descale[h] = math::abs(memory.channels.load(place.channel + 8 * h as u32));
    });

    let rank = cluster::block_rank();
    let (half, share) = (rank / F::CONFIG.shares, rank % F::CONFIG.shares);
    let rows = g.half_rows(half);
    // Whether this block multiplies the warpgroup's window rows, or only frees their slots. (Asked in this
    // and no other way, and where more blocks share a half alone: else the assembler runs out of
    // registers there, or lays out the code of the others anew.)
    let multiplies = F::CONFIG.shares == 1 || share == warpgroup;
    let clusters = thread::grid_dim_x() / F::CONFIG.cluster_blocks();
    let mut sample = thread::block_idx_x() / F::CONFIG.cluster_blocks();
    let (mut first_band, mut item) = (0, 0);
    let pitch = F::CONFIG.pooled_pitch();
    while sample < g.n {
        if among == 0 {
            Barrier::at(memory.exchanged, item & 1).arrive_expect(statistics::bytes::<F>());
        }
        let mut sums = Sums {
            shift: [0.0; 2],
            folded: [0.0; 2],
            sum: [0.0; 2],
            squares: [0.0; 2],
            rows: 0,
        };
        unroll!(2, |h| {
            F::set_constant(&mut filters, h, 0);
        });
        let mut band = warpgroup;
        while band < rows.bands {
            let count = first_band + band;
            let slots = F::CONFIG.slots;
            Barrier::at(memory.filled, count % slots).wait((count / slots) & 1);
            let has_window_row = if F::CONFIG.shares == 1 {
                band < rows.window_rows
            } else {
                multiplies && band < rows.window_rows
            };
            if has_window_row {
                let needs_next = band + 1 < rows.bands;
                let next = count + 1;
                if needs_next {
                    Barrier::at(memory.filled, next % slots).wait((next / slots) & 1);
                }
                let window_row = WindowRow {
                    slot: count % slots,
                    next_slot: next % slots,
                    rows: (rows.rows - band * BAND_ROWS).min(BAND_ROWS),
                    input_descale: if F::SCALED {
                        let last = if needs_next { next } else { count };
                        memory.descale.load(last % slots)
                    } else {
                        1.0
                    },
                };
                let best = window_row.multiply::<F>(memory, &mut filters, &mut sums, &place);
                if band < rows.pooled {
                    let row = band / F::CONFIG.shares;
                    let offset = place.channel * pitch + row * OUT_WIDTH + 2 * place.quad_lane;
                    unroll!(2, |h| {
                        unroll!(4, |o| {
                            unroll!(2, |e| {
                                if o < 3 || e == 0 || !place.edge {
                                    let value = (best[h][o][e] + sums.folded[h])
                                        * window_row.descale::<F>(&place, h);
                                    let at = offset + 8 * (h as u32 * pitch + o as u32);
                                    memory.pooled.store(at + e as u32, value);
                                }
                            });
                        });
                    });
                }
            } else {
                window_row_freed(memory, count % slots, place.lane);
            }
            band += F::CONFIG.consumers;
        }

        unroll!(2, |h| {
            let columns = if place.edge { 30 } else { 32 };
            let count = (sums.rows * columns) as f32;
            let of_thread = Moments::about(sums.shift[h], count, sums.sum[h], sums.squares[h]);
            let of_quad = of_thread.of_quad();
            let mut channel = place.channel + 8 * h as u32;
            if F::CONFIG.shares > 1 && F::CONFIG.parts == 2 {
                // So that no address made of it is kept while the warp multiplies: that would take
                // registers which this format does not have, but the others do.
                channel = opaque::to_assembler(channel);
            }
            if F::CONFIG.shares == 1 {
                if place.quad_lane == 0 {
                    statistics::keep(memory, place.warpgroup, channel, of_quad);
                }
            } else if place.quad_lane == 0 && multiplies {
                statistics::send::<F>(memory, rank, channel, item, of_quad);
            }
        });
        statistics::finish::<F>(arguments, g, memory, &rows, sample, item, among);
        first_band += rows.bands;
        item += 1;
        sample += clusters;
    }
}

/// Says that this warp has no more products with the slot's window row.
#[inline(always)]
unsafe fn window_row_freed(memory: &Memory, slot: u32, lane: u32) {
    warp::sync_warp(warp::ALL_LANES);
    if lane == 0 {
        Barrier::at(memory.freed, slot).arrive();
    }
}

/// Four rows of the convolution, or what is left of them: one row of pooling windows.
struct WindowRow {
    slot: u32,
    next_slot: u32,
    rows: u32,
    /// Undoes the scale of the input.
    input_descale: f32,
}

impl WindowRow {
    /// Undoes both scales for channel `h` of the thread.
    #[inline(always)]
    const fn descale<F: Format>(&self, place: &Place, h: usize) -> f32 {
        if F::SCALED {
            self.input_descale * place.descale[h]
        } else {
            1.0
        }
    }

    /// Adds the window row to the sums and returns the maximum of each window, scaled as the products are and
    /// less what was folded.
    #[inline(always)]
    unsafe fn multiply<F: Format>(
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
        let mut of = OfWindowRow {
            best: [[[f32::NEG_INFINITY; 2]; 4]; 2],
            // Where nothing changes the scale, those of the sample go on.
            sum: if F::SCALED { [0.0; 2] } else { sums.sum },
            squares: if F::SCALED { [0.0; 2] } else { sums.squares },
        };
        if sums.rows > 0 && self.rows == BAND_ROWS {
            // Each half is reduced while the next one is multiplied.
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
            window_row_freed(memory, self.slot, place.lane);
            of.reduce::<1>(&right, place.edge);
            sums.rows += BAND_ROWS;
        } else {
            let mut rows = rows;
            let mut y = 0;
            while y < self.rows {
                let (mut left, mut right);
                if y + 1 == BAND_ROWS {
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
                    window_row_freed(memory, self.slot, place.lane);
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
        let OfWindowRow { best, sum, squares } = of;

        let columns = if place.edge { 30 } else { 32 };
        let count = (self.rows * columns) as f32;
        unroll!(2, |h| {
            if F::SCALED {
                // From sums about what was folded to sums about the shift; they differ by
                // rounding, and only if the scale changed.
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

    /// The units at which the six input rows of the window row start.
    #[inline(always)]
    fn input_rows<F: Format>(&self, memory: &Memory) -> [u32; 6] {
        let ring = wgmma::unit(memory.ring.addr(0));
        let row = F::CONFIG.row_bytes() / PIXEL_BYTES;
        let first = ring + self.slot * BAND_ROWS * row;
        let next = ring + self.next_slot * BAND_ROWS * row;
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

/// What the outputs of a window row come to.
struct OfWindowRow {
    best: [[[f32; 2]; 4]; 2],
    sum: [f32; 2],
    squares: [f32; 2],
}

impl OfWindowRow {
    /// Adds half a row.
    #[inline(always)]
    fn reduce<const HALF: usize>(&mut self, d: &[f32; 32], edge: bool) {
        unroll!(2, |h| {
            // Two chains of additions instead of one.
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

/// Starts half `half` of output row `y`.
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

/// The value, or 0 where its column lies outside of the convolution's output.
#[inline(always)]
const fn inside(value: f32, f: usize, o: usize, e: usize, edge: bool) -> f32 {
    if f >= 2 && o == 3 && e == 1 && edge {
        0.0
    } else {
        value
    }
}

/// The mean of channel `h` over the first half of a row of products: of every four columns the first two.
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
    let mut sum = sum[0] + sum[1];
    sum += warp::warp_shuffle_xor(warp::ALL_LANES, sum, 1, WARP_THREADS).0;
    sum += warp::warp_shuffle_xor(warp::ALL_LANES, sum, 2, WARP_THREADS).0;
    sum * (2.0 / WIDTH as f32)
}

/// `shift` as two operands: the value that they subtract, and this thread's word of them, which
/// the thread with the first two columns of K has.
#[inline(always)]
fn fold<F: Format>(shift: f32, quad_lane: u32) -> (f32, u32) {
    // Any value serves as a shift, so what f16 cannot hold is cut, and NaN (which spoils the
    // sample anyway) is 0.
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
