//! The warp that fills the rings.

use cuda_std::global::Global;
use cuda_std::mbarrier::copy_bulk;
use cuda_std::{thread, warp};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::wide::{STEP_BYTES, chain_bytes};
use op_spec::launch::implicit_gemm::{CELL_BYTES, CELL_WORDS, CHAIN_STEPS};

use super::super::place::Place;
use super::{Memory, Turn, Work};

/// Brings patches and filters of all of the block's work, in the order in which they are multiplied.
///
/// # Safety
/// All lanes of the warp call it, after the barrier behind `prepare`.
#[inline(always)]
pub(super) unsafe fn produce(
    work: &Work<'_>,
    memory: &Memory,
    packed: Global<u32>,
    operands: Global<u32>,
) {
    let (g, parts) = (work.g, memory.parts);
    let lane = thread::thread_idx_x() % WARP_THREADS;
    let (mut patch, mut filters) = (Turn::FIRST, Turn::FIRST);
    let (patch_ring, filter_ring) = (memory.patches(), memory.filters());
    let all_steps = g.stages * g.steps;
    let chain_words = chain_bytes(parts) / 4;
    let patch_bytes = g.stage_planes * parts * g.packed_patch_cells() * CELL_BYTES;
    let mut item = work.first_item;
    while item < g.items() as u32 {
        let place = Place::of(item, g);
        let mut stage = 0;
        while stage < g.stages {
            // A new barrier's phase of parity 1 is over, as it were: its slot is free.
            patch_ring.free(patch.slot).wait(patch.parity ^ 1);
            let filled = patch_ring.filled(patch.slot);
            if lane == 0 {
                filled.arrive_expect(patch_bytes);
            }
            warp::sync_warp(warp::ALL_LANES);
            copy_patch(work, memory, packed, &place, stage, patch.slot);
            patch = patch.next(patch_ring.slots);

            let mut step = stage * g.steps;
            let mut chain = 0;
            while chain < g.stage_chains() {
                filter_ring.free(filters.slot).wait(filters.parity ^ 1);
                let filled = filter_ring.filled(filters.slot);
                if lane == 0 {
                    let tiles = memory.rings.tiles;
                    filled.arrive_expect(tiles * chain_words * 4);
                    let mut tile = 0;
                    while tile < tiles {
                        // Behind the last tile, that one again: what comes of it is not written.
                        let from = (work.filter_tile + tile).min(g.filter_tiles - 1);
                        let at = (from * all_steps + step) * parts * (STEP_BYTES / 4);
                        let to = (filters.slot * tiles + tile) * chain_words;
                        let to = memory.filters.addr(to);
                        copy_bulk(to, operands, at as usize, chain_words * 4, filled);
                        tile += 1;
                    }
                }
                filters = filters.next(filter_ring.slots);
                step += CHAIN_STEPS;
                chain += 1;
            }
            stage += 1;
        }
        item += work.item_step;
    }
}

/// Copies the rows of a stage's patch to a slot: each lane every 32nd row.
#[inline(always)]
unsafe fn copy_patch(
    work: &Work<'_>,
    memory: &Memory,
    packed: Global<u32>,
    place: &Place,
    stage: u32,
    slot: u32,
) {
    let (g, parts) = (work.g, memory.parts);
    let conv = &g.conv;
    let plane_words = g.plane_cells() as usize * CELL_WORDS as usize;
    let first =
        (place.z * conv.stride_d * g.packed_h + place.p * conv.stride_h) * g.row_cells() + place.q;
    let of_group = place.sample as usize * conv.groups as usize + work.group as usize;
    let first_plane = stage * g.stage_planes;
    let part = (of_group * g.planes as usize + first_plane as usize) * parts as usize;
    let from = part * plane_words + first as usize * CELL_WORDS as usize;
    // Filters of channels that do not exist are 0, whatever they meet: the last ones again.
    let planes = g.stage_planes.min(g.planes - first_plane);
    let filled = memory.patches().filled(slot);
    let slot = slot * (g.stage_bytes(parts) / 4);
    let mut row = thread::thread_idx_x() % WARP_THREADS;
    while row < g.patch_rows() {
        let mut source = from + (memory.rows.load(row) * CELL_WORDS) as usize;
        let mut target = slot + row * g.patch_columns * CELL_WORDS;
        let mut local = 0;
        while local < g.stage_planes {
            let mut part = 0;
            while part < parts {
                let at = source + part as usize * plane_words;
                let to = memory.patches.addr(target);
                copy_bulk(to, packed, at, g.patch_columns * CELL_BYTES, filled);
                target += g.patch_cells * CELL_WORDS;
                part += 1;
            }
            local += 1;
            if local < planes {
                source += parts as usize * plane_words;
            }
        }
        row += WARP_THREADS;
    }
}
