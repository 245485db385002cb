//! The warps that fill the rings, those of patches from a packed input.

use cuda_std::global::Global;
use cuda_std::mbarrier::copy_bulk;
use cuda_std::{async_proxy, cp_async, thread, warp};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::wide::{PATCH_WARPS, STEP_BYTES, chain_bytes};
use op_spec::launch::implicit_gemm::{CELL_WORDS, CHAIN_STEPS};

use super::super::place::Place;
use super::super::tables::stage_place;
use super::{Memory, Turn, Work};
use crate::parts::unroll::unroll;

/// Cells whose places a lane looks up before it copies the first of them.
const TOGETHER: usize = 8;

/// Brings the filters of all of the block's work, chain by chain; once, if they stay.
///
/// # Safety
/// One thread calls it, after the barrier behind `prepare`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn bring_filters(work: &Work<'_>, memory: &Memory, operands: Global<u32>) {
    let (g, tiles) = (work.g, memory.rings.tiles);
    let parts = memory.format.step_parts();
    let ring = memory.filters();
    let all_steps = g.stages * g.steps;
    let chain_words = chain_bytes(parts) / 4;
    let mut turn = Turn::FIRST;
    let mut item = work.first_item;
    while item < g.items() as u32 {
        let [first_stage, end_stage] = work.stages();
        let mut step = first_stage * g.steps;
        while step < end_stage * g.steps {
            // A new barrier's phase of parity 1 is over, as it were: its slot is free.
            ring.free(turn.slot).wait(turn.parity ^ 1);
            let filled = ring.filled(turn.slot);
            filled.arrive_expect(tiles * chain_words * 4);
            let mut tile = 0;
            while tile < tiles {
                // Behind the last tile, that one again: what comes of it is not written.
                let from = (work.filter_tile + tile).min(g.filter_tiles - 1);
                let at = (from * all_steps + step) * parts * (STEP_BYTES / 4);
                let to = memory
                    .filters
                    .addr((turn.slot * tiles + tile) * chain_words);
                copy_bulk(to, operands, at as usize, chain_words * 4, filled);
                tile += 1;
            }
            turn = turn.next(&ring);
            step += CHAIN_STEPS;
        }
        if ring.comes_round == 0 {
            break;
        }
        item += work.item_step;
    }
}

/// Brings patches of the block's work, from number `first` on each that is the warp's turn. A warp waits for its own copies,
/// so several of them keep memory busy. No more of them than there are slots: one that was two rounds of the ring ahead would take a
/// slot's phase for the one before the last.
///
/// # Safety
/// All lanes of the warp call it, after the barrier behind `prepare`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn bring_patches(
    work: &Work<'_>,
    memory: &Memory,
    packed: Global<u32>,
    first: u32,
) {
    let g = work.g;
    let ring = memory.patches();
    let warps = PATCH_WARPS.min(ring.slots);
    if first >= warps {
        return;
    }
    let mut turn = Turn::FIRST;
    let mut others = first;
    let mut item = work.first_item;
    while item < g.items() as u32 {
        let place = Place::of(item, g);
        let [mut stage, end_stage] = work.stages();
        while stage < end_stage {
            if others == 0 {
                start_patch(work, memory, packed, &place, stage, turn);
                cp_async::wait_all();
                async_proxy::fence_shared();
                warp::sync_warp(warp::ALL_LANES);
                if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
                    ring.filled(turn.slot).arrive();
                }
                others = warps;
            }
            others -= 1;
            turn = turn.next(&ring);
            stage += 1;
        }
        item += work.item_step;
    }
}

/// Starts to copy a stage's patch to a slot as soon as that is free: each lane every 32nd cell, of [`TOGETHER`] of which it looks up the places at a time,
/// for all planes, so that no copy waits for a place. All that can be known before the slot is free is.
#[inline(always)]
unsafe fn start_patch(
    work: &Work<'_>,
    memory: &Memory,
    packed: Global<u32>,
    place: &Place,
    stage: u32,
    turn: Turn,
) {
    let (g, parts) = (work.g, memory.format.parts);
    let conv = &g.conv;
    let plane_words = g.plane_cells() as usize * CELL_WORDS as usize;
    let (first_plane, filter_slice) = stage_place(g, stage);
    let z = place.z * g.slice_stride() + filter_slice * conv.dilation_d;
    let first = (z * g.packed_h + place.p * conv.stride_h) * g.row_cells() + place.q;
    let of_group = place.sample as usize * conv.groups as usize + work.group as usize;
    let part = (of_group * g.planes as usize + first_plane as usize) * parts as usize;
    let first = first as usize * CELL_WORDS as usize;
    // Filters of channels that do not exist are 0, whatever they meet: the last ones again.
    let planes = g.stage_planes.min(g.planes - first_plane);
    let slot = turn.slot * (g.stage_bytes(parts) / 4);
    let cells = g.packed_patch_cells();
    let mut cell = thread::thread_idx_x() % WARP_THREADS;
    memory.patches().free(turn.slot).wait(turn.parity ^ 1);
    while cell < cells {
        let left = (cells - cell).div_ceil(WARP_THREADS);
        let mut sources = [0; TOGETHER];
        unroll!(8, |i| {
            if (i as u32) < left {
                sources[i] = memory.sources.load(cell + i as u32 * WARP_THREADS);
            }
        });
        let mut from = part * plane_words + first;
        let mut target = slot + cell * CELL_WORDS;
        let mut local = 0;
        while local < g.stage_planes {
            unroll!(3, |part| {
                if (part as u32) < parts {
                    // From here on 32 bits reach every cell.
                    let of_part = from + part * plane_words;
                    let plane = packed.slice(of_part, plane_words - first);
                    unroll!(8, |i| {
                        if (i as u32) < left {
                            let at = target + i as u32 * WARP_THREADS * CELL_WORDS;
                            cp_async::copy16(memory.patches.addr(at), plane, sources[i] as usize);
                        }
                    });
                    target += g.patch_cells * CELL_WORDS;
                }
            });
            local += 1;
            if local < planes {
                from += parts as usize * plane_words;
            }
        }
        cell += TOGETHER as u32 * WARP_THREADS;
    }
}
