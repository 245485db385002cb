//! Producer warps: filters by bulk copies or box by box, and halo tiles of planes by `cp.async` from a
//! reformatted input.

use cuda_std::global::Global;
use cuda_std::mbarrier::{Barrier, copy_bulk};
use cuda_std::shared::SharedAddr;
use cuda_std::tensor_map::{TensorMap, copy_box};
use cuda_std::{async_proxy, cp_async, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{HALO_WARPS, MMA_STEP_BYTES, mma_batch_bytes};
use launch_config::implicit_gemm::{
    K_VECTOR_VALUES, K_VECTOR_WORDS, MMA_BATCH_STEPS, MMA_STEP_K_VECTORS, WARP_SPECIALIZED,
};

use super::super::tables::k_block_place;
use super::super::tile_coord::TileCoord;
use super::{Memory, PipelineState, Work};
use crate::parts::unroll::unroll;

/// K-vectors whose offsets a lane looks up before it copies the first of them.
const TOGETHER: usize = 8;

/// The source of filters: prepared operands of the block's group or, if the geometry says so, the tensor map
/// of the filters in place.
pub(super) struct FilterSource<'a> {
    pub(super) operands: Global<u32>,
    pub(super) boxes: &'a TensorMap,
}

/// An MMA batch: its first step in the whole reduction and, for filters in place, the channel and the tap of
/// each of its steps.
struct MmaBatch {
    step: u32,
    places: [[u32; 2]; MMA_BATCH_STEPS as usize],
}

impl FilterSource<'_> {
    /// Copies the filters of tile `tile` of the group for an MMA batch to shared memory.
    #[inline(always)]
    unsafe fn load(
        &self,
        work: &Work<'_>,
        tile: u32,
        batch: &MmaBatch,
        parts: u32,
        to: SharedAddr,
        full: Barrier,
    ) {
        let g = work.g;
        if !g.filters.is_in_place() {
            let all_mma_steps = g.k_blocks * g.mma_steps;
            let at = (tile * all_mma_steps + batch.step) * parts * (MMA_STEP_BYTES / 4);
            copy_bulk(to, self.operands, at as usize, mma_batch_bytes(parts), full);
            return;
        }
        let filter = work.group * g.conv.group_k + tile * WARP_SPECIALIZED.filters();
        unroll!(3, |i| {
            let [channel, tap] = batch.places[i];
            let at = [channel, filter, tap, 0, 0].map(|index| index as i32);
            copy_box(
                SharedAddr(to.0 + i as u32 * MMA_STEP_BYTES),
                self.boxes,
                at,
                full,
            );
        });
    }
}

/// Loads the filters of all of the block's work, MMA batch by MMA batch; once if they are resident.
///
/// # Safety
/// One thread calls it, after the barrier that follows `prepare`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn load_filters(work: &Work<'_>, memory: &Memory, source: &FilterSource<'_>) {
    let (g, tiles) = (work.g, memory.mainloop.tiles);
    let parts = memory.format.step_parts();
    let pipeline = memory.filters();
    let mma_batch_words = mma_batch_bytes(parts) / 4;
    let mut state = PipelineState::FIRST;
    let mut number = 0;
    while memory.has_tile(number) {
        let [mut k_block, end_k_block] = work.k_blocks();
        while k_block < end_k_block {
            let (first_plane, depth) = k_block_place(g, k_block);
            let (mut plane, mut tap, mut step) = (0, 0, 0);
            while step < g.mma_steps {
                let mut batch = MmaBatch {
                    step: k_block * g.mma_steps + step,
                    places: [[0; 2]; MMA_BATCH_STEPS as usize],
                };
                unroll!(3, |i| {
                    // Steps after the last one of a K block multiply by the zeros of channels that do not
                    // exist.
                    let exists = plane < g.k_block_planes;
                    let of_step = if exists {
                        first_plane + plane
                    } else {
                        g.planes
                    };
                    batch.places[i] = [of_step * K_VECTOR_VALUES, depth * g.taps + tap];
                    tap += 1;
                    if tap == g.taps {
                        (plane, tap) = (plane + MMA_STEP_K_VECTORS, 0);
                    }
                });
                // The phase of parity 1 of a new barrier counts as over: its stage is empty.
                pipeline.empty(state.stage).wait(state.parity ^ 1);
                let full = pipeline.full(state.stage);
                full.arrive_expect(tiles * mma_batch_words * 4);
                let mut tile = 0;
                while tile < tiles {
                    // After the last tile of filters, the last tile again: its results are not written.
                    let from = (work.filter_tile + tile).min(g.filter_tiles - 1);
                    let at = (state.stage * tiles + tile) * mma_batch_words;
                    source.load(work, from, &batch, parts, memory.filters.addr(at), full);
                    tile += 1;
                }
                state = state.next(&pipeline);
                step += MMA_BATCH_STEPS;
            }
            k_block += 1;
        }
        if pipeline.wraps == 0 {
            break;
        }
        number += 1;
    }
}

const _: () = assert!(MMA_BATCH_STEPS == 3);

/// Loads every `warps`-th halo tile of the block's work, from number `first` on. A warp waits for its own
/// copies, so several warps keep memory busy. There are no more warps than stages: a warp two rounds of the
/// pipeline ahead would mistake a phase of its stage for the phase before the last.
///
/// # Safety
/// All lanes of the warp call it, after the barrier that follows `prepare`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn load_halos(
    work: &Work<'_>,
    memory: &Memory,
    reformatted: Global<u32>,
    first: u32,
) {
    let g = work.g;
    let pipeline = memory.halos();
    let warps = HALO_WARPS.min(pipeline.stages);
    if first >= warps {
        return;
    }
    let mut state = PipelineState::FIRST;
    let mut others = first;
    let mut number = 0;
    while memory.has_tile(number) {
        let [first_k_block, end_k_block] = work.k_blocks();
        let mut k_block = first_k_block;
        while k_block < end_k_block {
            if others == 0 {
                let place = TileCoord::of(memory.work_tile(number), g);
                let is_first = thread::thread_idx_x().is_multiple_of(WARP_THREADS);
                if k_block == first_k_block && is_first {
                    memory.store_coord(number, &place);
                }
                start_halo(work, memory, reformatted, &place, k_block, state);
                cp_async::wait_all();
                async_proxy::fence_shared();
                warp::sync_warp(warp::ALL_LANES);
                if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
                    pipeline.full(state.stage).arrive();
                }
                others = warps;
            }
            others -= 1;
            state = state.next(&pipeline);
            k_block += 1;
        }
        number += 1;
    }
}

/// Starts the copies of a K block's halo tile as soon as its stage is empty. Each lane copies every 32nd
/// K-vector of all planes, and looks up [`TOGETHER`] offsets at a time, so no copy waits for an offset.
/// Values that do not depend on the stage are computed before the wait.
#[inline(always)]
unsafe fn start_halo(
    work: &Work<'_>,
    memory: &Memory,
    reformatted: Global<u32>,
    place: &TileCoord,
    k_block: u32,
    state: PipelineState,
) {
    let (g, parts) = (work.g, memory.format.parts);
    let conv = &g.conv;
    let plane_words = g.plane_k_vectors() as usize * K_VECTOR_WORDS as usize;
    let (first_plane, filter_slice) = k_block_place(g, k_block);
    let z = place.z * g.slice_stride() + filter_slice * conv.dilation_d;
    let first = (z * g.reformatted_h + place.p * conv.stride_h) * g.row_k_vectors() + place.q;
    let of_group = place.sample as usize * conv.groups as usize + work.group as usize;
    let part = (of_group * g.planes as usize + first_plane as usize) * parts as usize;
    let first = first as usize * K_VECTOR_WORDS as usize;
    // Filters of channels that do not exist are 0, whatever they multiply: the last plane is loaded again.
    let planes = g.k_block_planes.min(g.planes - first_plane);
    let stage = state.stage * (g.k_block_bytes(parts) / 4);
    let k_vectors = g.reformatted_halo_k_vectors();
    let mut k_vector = thread::thread_idx_x() % WARP_THREADS;
    memory.halos().empty(state.stage).wait(state.parity ^ 1);
    while k_vector < k_vectors {
        let left = (k_vectors - k_vector).div_ceil(WARP_THREADS);
        let mut sources = [0; TOGETHER];
        unroll!(8, |i| {
            if (i as u32) < left {
                sources[i] = memory.sources.load(k_vector + i as u32 * WARP_THREADS);
            }
        });
        let mut from = part * plane_words + first;
        let mut target = stage + k_vector * K_VECTOR_WORDS;
        let mut local = 0;
        while local < g.k_block_planes {
            unroll!(3, |part| {
                if (part as u32) < parts {
                    // From the start of this part, 32 bits reach every K-vector.
                    let of_part = from + part * plane_words;
                    let plane = reformatted.slice(of_part, plane_words - first);
                    unroll!(8, |i| {
                        if (i as u32) < left {
                            let at = target + i as u32 * WARP_THREADS * K_VECTOR_WORDS;
                            cp_async::copy16(memory.halos.addr(at), plane, sources[i] as usize);
                        }
                    });
                    target += g.halo_k_vectors * K_VECTOR_WORDS;
                }
            });
            local += 1;
            if local < planes {
                from += parts as usize * plane_words;
            }
        }
        k_vector += TOGETHER as u32 * WARP_THREADS;
    }
}
