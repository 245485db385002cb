//! The consumer warpgroups.

use cuda_std::global::Global;
use cuda_std::mbarrier::Barrier;
use cuda_std::{async_proxy, barrier, cluster, math, opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, OUT_WIDTH, OneLaunch2dGeometry, PIXEL_BYTES, TILE_ROWS, WARPGROUP_THREADS,
    WIDTH,
};

use super::Arguments;
use super::format::Format;
use super::memory::Memory;
use super::output_tile::{OutputTile, Place, Sums, release_stage};
use super::statistics::{self, CONSUMER_BARRIER, Moments};
use crate::parts::unroll::unroll;

/// Computes all output tiles of this warpgroup, and finishes each sample.
///
/// # Safety
/// As the kernels. All consumer warpgroups make this call, each with its own `warpgroup`.
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
    let consumer_thread = warpgroup * WARPGROUP_THREADS + thread;

    let words = F::CONFIG.operand_words() as usize;
    let mut filters = F::filters(Global::new(arguments.filters, words), thread);
    let channels = Global::new(arguments.channels, CHANNEL_FLOATS as usize);
    if consumer_thread < CHANNEL_FLOATS {
        memory.channels.store(
            consumer_thread,
            channels.load_readonly(consumer_thread as usize),
        );
    }
    let mut at = consumer_thread * 4;
    while at < WIDTH * PIXEL_BYTES / 4 {
        memory
            .constant
            .store_vec(at, [F::pack(F::CONSTANT, F::CONSTANT); 4]);
        at += threads * 4;
    }
    async_proxy::fence_shared();
    barrier::sync(CONSUMER_BARRIER, threads);
    unroll!(2, |h| {
        place.descale[h] = math::abs(memory.channels.load(place.channel + 8 * h as u32));
    });

    let rank = cluster::block_rank();
    let (half, share) = (
        rank / F::CONFIG.blocks_per_half,
        rank % F::CONFIG.blocks_per_half,
    );
    let rows = g.half_rows(half);
    // Whether this block computes the warpgroup's output tiles, or only releases their stages. The condition
    // is written in this form, and evaluated only where several blocks share a half, because otherwise the
    // assembler runs out of registers there, or changes the code of the other instances.
    let multiplies = F::CONFIG.blocks_per_half == 1 || share == warpgroup;
    let clusters = thread::grid_dim_x() / F::CONFIG.cluster_blocks();
    let mut sample = thread::block_idx_x() / F::CONFIG.cluster_blocks();
    let (mut first_tile, mut item) = (0, 0);
    let pitch = F::CONFIG.pooled_pitch();
    while sample < g.n {
        if consumer_thread == 0 {
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
        let mut tile = warpgroup;
        while tile < rows.input_tiles {
            let count = first_tile + tile;
            let stages = F::CONFIG.stages;
            Barrier::at(memory.full, count % stages).wait((count / stages) & 1);
            let has_output_tile = if F::CONFIG.blocks_per_half == 1 {
                tile < rows.output_tiles
            } else {
                multiplies && tile < rows.output_tiles
            };
            if has_output_tile {
                let needs_next = tile + 1 < rows.input_tiles;
                let next = count + 1;
                if needs_next {
                    Barrier::at(memory.full, next % stages).wait((next / stages) & 1);
                }
                let output_tile = OutputTile {
                    stage: count % stages,
                    next_stage: next % stages,
                    rows: (rows.rows - tile * TILE_ROWS).min(TILE_ROWS),
                    input_descale: if F::SCALED {
                        let last = if needs_next { next } else { count };
                        memory.descale.load(last % stages)
                    } else {
                        1.0
                    },
                };
                let best = output_tile.multiply::<F>(memory, &mut filters, &mut sums, &place);
                if tile < rows.pooled {
                    let row = tile / F::CONFIG.blocks_per_half;
                    let offset = place.channel * pitch + row * OUT_WIDTH + 2 * place.quad_lane;
                    unroll!(2, |h| {
                        unroll!(4, |o| {
                            unroll!(2, |e| {
                                if o < 3 || e == 0 || !place.edge {
                                    let value = (best[h][o][e] + sums.folded[h])
                                        * output_tile.descale::<F>(&place, h);
                                    let at = offset + 8 * (h as u32 * pitch + o as u32);
                                    memory.pooled.store(at + e as u32, value);
                                }
                            });
                        });
                    });
                }
            } else {
                release_stage(memory, count % stages, place.lane);
            }
            tile += F::CONFIG.consumers;
        }

        unroll!(2, |h| {
            let columns = if place.edge { 30 } else { 32 };
            let count = (sums.rows * columns) as f32;
            let of_thread = Moments::about(sums.shift[h], count, sums.sum[h], sums.squares[h]);
            let of_quad = of_thread.of_quad();
            let mut channel = place.channel + 8 * h as u32;
            if F::CONFIG.blocks_per_half > 1 && F::CONFIG.parts == 2 {
                // Opaque, so that the assembler keeps no address computed from it during the mainloop. This
                // format has no registers left for that; the others have.
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
        statistics::finish::<F>(arguments, g, memory, &rows, sample, item, consumer_thread);
        first_tile += rows.input_tiles;
        item += 1;
        sample += clusters;
    }
}
