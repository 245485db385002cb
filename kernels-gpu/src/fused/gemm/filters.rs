//! The filter loader: a warp that copies the filters of each stage, beside the producer.
//!
//! What a tensor map copies takes two to four cycles a line of 128 bytes and less, whatever it has: as many for
//! the filters of a stage as its products take. A warp that copies 16 bytes a thread takes none of them.

use cuda_std::element::Element;
use cuda_std::global::Global;
use cuda_std::{async_proxy, cp_async, opaque, thread, warp, wgmma};
use launch_config::WARP_THREADS;
use launch_config::gemm::{
    FILTER_GROUPS, LINE_BYTES, LINE_VALUES, UNIT_VALUES, WARPGROUP_WARPS, WARPS,
};

use super::Memory;
use crate::parts::pipeline::PipelineState;
use crate::parts::unroll::unroll;

/// Units of 16 bytes of a line.
const LINE_UNITS: u32 = LINE_VALUES / UNIT_VALUES;
/// Lines that a warp copies at once.
const LINES: u32 = WARP_THREADS / LINE_UNITS;

/// Loads the filters of the stages of all of the block's tiles: of each filter the 128 bytes of the stage, and
/// zeros for filters that do not exist.
///
/// # Safety
/// All lanes of a warp call it, after the barrier behind the initialisation. `filters` are the geometry's, with
/// the channels last, which are whole lines.
#[inline(always)]
pub(super) unsafe fn load_filters<T: Element>(memory: &Memory, filters: *const T) {
    let g = &memory.g;
    let pitch = (g.k_blocks * LINE_VALUES) as usize;
    let values = Global::new(filters, g.filters() as usize * pitch);
    let lane = thread::thread_idx_x() % WARP_THREADS;
    let (line, unit) = (lane / LINE_UNITS, lane % LINE_UNITS);
    // Units are exchanged by the line's number within eight, which are the same in every second step.
    let targets = [0, LINES].map(|step| {
        let line = line + step;
        (line * LINE_UNITS + (unit ^ line % LINE_UNITS)) * wgmma::UNIT_BYTES
    });
    let stages = memory.stages();
    let (mut state, mut landed, mut groups) = (PipelineState::FIRST, PipelineState::FIRST, 0);
    let announce = |landed: PipelineState| {
        async_proxy::fence_shared();
        warp::sync_warp(warp::ALL_LANES);
        if lane == 0 {
            stages.full(landed.stage).arrive();
        }
        landed.next(&stages)
    };
    let mut tile = thread::block_idx_x();
    while tile < g.tiles {
        let [_, first] = memory.start(tile);
        let mut k_block = 0;
        while k_block < g.k_blocks {
            opaque::not_unrolled();
            stages.empty(state.stage).wait(state.parity ^ 1);
            let to = memory.stage(state.stage).offset(g.tile_pixels * LINE_BYTES);
            let mut filter = first + line;
            let mut at =
                filter as usize * pitch + (k_block * LINE_VALUES + unit * UNIT_VALUES) as usize;
            let mut of_tile = 0;
            while of_tile < memory.tile[1] {
                opaque::not_unrolled();
                unroll!(8, |i| {
                    let step = i as u32;
                    let to =
                        to.offset((of_tile + step / 2 * 2 * LINES) * LINE_BYTES + targets[i % 2]);
                    let bytes = if filter < g.filters() {
                        wgmma::UNIT_BYTES
                    } else {
                        0
                    };
                    cp_async::copy16_zfill(to, values, at, bytes);
                    filter += LINES;
                    at += LINES as usize * pitch;
                });
                of_tile = opaque::to_compiler(of_tile + 8 * LINES);
            }
            cp_async::commit_group();
            if groups == FILTER_GROUPS {
                cp_async::wait_group::<FILTER_GROUPS>();
                landed = announce(landed);
            } else {
                groups += 1;
            }
            state = state.next(&stages);
            k_block = opaque::to_compiler(k_block + 1);
        }
        tile += thread::grid_dim_x();
    }
    cp_async::wait_all();
    while groups > 0 {
        opaque::not_unrolled();
        landed = announce(landed);
        groups = opaque::to_compiler(groups - 1);
    }
}
const _: () = assert!(WARPGROUP_WARPS == 4 && WARPS == 8);
