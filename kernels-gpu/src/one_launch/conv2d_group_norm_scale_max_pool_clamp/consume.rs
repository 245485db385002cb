//! The multiplying warpgroups.

use cuda_std::global::Global;
use cuda_std::mbarrier::Barrier;
use cuda_std::{async_proxy, barrier, cluster, math, opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    BAND_ROWS, CHANNEL_FLOATS, OUT_WIDTH, OneLaunch2dGeometry, PIXEL_BYTES, WARPGROUP_THREADS,
    WIDTH,
};

use super::Arguments;
use super::format::Format;
use super::memory::Memory;
use super::statistics::{self, MULTIPLIERS, Moments};
use super::window_row::{Place, Sums, WindowRow, window_row_freed};
use crate::parts::unroll::unroll;

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
    let (half, share) = (
        rank / F::CONFIG.blocks_per_half,
        rank % F::CONFIG.blocks_per_half,
    );
    let rows = g.half_rows(half);
    // Whether this block multiplies the warpgroup's window rows, or only frees their slots. (Asked in this
    // and no other way, and where more blocks share a half alone: else the assembler runs out of
    // registers there, or lays out the code of the others anew.)
    let multiplies = F::CONFIG.blocks_per_half == 1 || share == warpgroup;
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
            let stages = F::CONFIG.stages;
            Barrier::at(memory.filled, count % stages).wait((count / stages) & 1);
            let has_window_row = if F::CONFIG.blocks_per_half == 1 {
                band < rows.window_rows
            } else {
                multiplies && band < rows.window_rows
            };
            if has_window_row {
                let needs_next = band + 1 < rows.bands;
                let next = count + 1;
                if needs_next {
                    Barrier::at(memory.filled, next % stages).wait((next / stages) & 1);
                }
                let window_row = WindowRow {
                    stage: count % stages,
                    next_stage: next % stages,
                    rows: (rows.rows - band * BAND_ROWS).min(BAND_ROWS),
                    input_descale: if F::SCALED {
                        let last = if needs_next { next } else { count };
                        memory.descale.load(last % stages)
                    } else {
                        1.0
                    },
                };
                let best = window_row.multiply::<F>(memory, &mut filters, &mut sums, &place);
                if band < rows.pooled {
                    let row = band / F::CONFIG.blocks_per_half;
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
                window_row_freed(memory, count % stages, place.lane);
            }
            band += F::CONFIG.consumers;
        }

        unroll!(2, |h| {
            let columns = if place.edge { 30 } else { 32 };
            let count = (sums.rows * columns) as f32;
            let of_thread = Moments::about(sums.shift[h], count, sums.sum[h], sums.squares[h]);
            let of_quad = of_thread.of_quad();
            let mut channel = place.channel + 8 * h as u32;
            if F::CONFIG.blocks_per_half > 1 && F::CONFIG.parts == 2 {
                // So that no address made of it is kept while the warp multiplies: that would take
                // registers which this format does not have, but the others do.
                channel = opaque::to_assembler(channel);
            }
            if F::CONFIG.blocks_per_half == 1 {
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
