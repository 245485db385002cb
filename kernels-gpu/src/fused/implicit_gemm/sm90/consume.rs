//! The consumer warpgroups: the mainloop.

use cuda_std::mbarrier::Barrier;
use cuda_std::wgmma::{self, MatrixDescriptor, MatrixLayout};
use cuda_std::{opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, MMA_STEP_BYTES, mma_batch_bytes};
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_VALUES, MMA_BATCH_STEPS, WARP_SPECIALIZED,
};

use super::super::format::Format;
use super::super::tables::{may_convert_in_producer, may_have_nhwc_tile};
use super::cluster_reduce;
use super::format::{Operands, WarpSpecializedFormat};
use super::output::Output;
use super::results::{HALF_SUMS, Results};
use super::{
    Memory, Pipeline, PipelineState, TileEpilogue, WARPGROUP_WARPS, Work, share_of, warp_of_block,
};

/// Units (16 bytes) of the filters of one part of an MMA step, and of eight filters of it.
const MMA_STEP_UNITS: u32 = MMA_STEP_BYTES / wgmma::UNIT_BYTES;
const EIGHT_FILTERS_UNITS: u32 = 8 * MMA_STEP_UNITS / WARP_SPECIALIZED.filters();

/// The layout of filters in shared memory: a line of 32 bytes for each, swizzled (`sm90::filter_word`).
const FILTER_LAYOUT: MatrixLayout = MatrixLayout::swizzled(1, EIGHT_FILTERS_UNITS);

/// Octets (eight pixels) of half of a tile's pixels.
const HALF_OCTETS: u32 = HALF_PIXELS / K_VECTOR_VALUES;

/// Releases a stage for the warp: arrives at the stage's barrier.
#[inline(always)]
unsafe fn release(barrier: Barrier) {
    if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
        barrier.arrive();
    }
}

/// Returns the warpgroup's index, computed at each call.
#[inline(always)]
unsafe fn warpgroup() -> u32 {
    warp_of_block() / WARPGROUP_WARPS
}

/// Returns the layout of the pixels in shared memory. It is computed for each tile; a kept layout would take
/// registers during the epilogue.
#[inline(always)]
unsafe fn layout<F: WarpSpecializedFormat<SUMS>, const SUMS: usize>(
    g: &ImplicitGemmGeometry,
    parts: u32,
) -> MatrixLayout {
    let octet_units = opaque::to_compiler(g.interleaved_octets[usize::from(F::INTERLEAVED)]);
    // The span's shift, computed unlike elsewhere, so that the assembler keeps no register for it.
    let shift = match may_have_nhwc_tile::<F>(WARP_SPECIALIZED) {
        true => (opaque::to_compiler(g.k_vectors.span_k_vectors) | 1).ilog2(),
        false => 0,
    };
    if shift == 0 {
        MatrixLayout::apart(g.second_k_vector(parts), octet_units)
    } else {
        MatrixLayout::swizzled(opaque::to_compiler(shift), octet_units)
    }
}

/// The stages to release: the filter stage of the previous MMA batch, and the halo stage of the K block that
/// this batch ended.
#[derive(Default)]
struct Used {
    filters: Option<u32>,
    halo: Option<u32>,
}

impl Used {
    #[inline(always)]
    unsafe fn release(&mut self, filters: &Pipeline, halos: &Pipeline) {
        if let Some(stage) = self.filters.take() {
            release(filters.empty(stage));
        }
        if let Some(stage) = self.halo.take() {
            release(halos.empty(stage));
        }
    }
}

/// Whether a halo stage is released as soon as its MMAs are over, instead of when the MMAs of the next K
/// block have begun. Evaluated each time: keeping the condition would take a register.
#[inline(always)]
fn releases_early<F: Format>(memory: &Memory) -> bool {
    may_convert_in_producer::<F>() && memory.mainloop.releases_early()
}

/// Runs the mainloop and the epilogue of all of the warpgroup's tiles.
///
/// # Safety
/// All threads of a warpgroup call it, after the barrier that follows `prepare`.
#[inline(always)]
pub(super) unsafe fn consume<F: WarpSpecializedFormat<SUMS>, const SUMS: usize, E: TileEpilogue>(
    work: &Work<'_>,
    memory: &Memory,
    output: &Output<F, E>,
) {
    let g = work.g;
    let (parts, step_parts) = (memory.format.parts, F::OPERANDS.step_parts());
    let tiles = memory.mainloop.tiles;
    let has_half = SUMS == HALF_SUMS;
    let (first_filter, first_half) = share_of(warp_of_block(), tiles, has_half);
    let filter_tile = first_filter / WARP_SPECIALIZED.filters();
    let (halo_pipeline, filter_pipeline) = (memory.halos(), memory.filters());
    let (mut halo, mut filters) = (PipelineState::FIRST, PipelineState::FIRST);

    let [to_next, to_second] = g.interleaved_octets;
    let half_units = if F::INTERLEAVED {
        HALF_OCTETS / 2 * to_second
    } else {
        HALF_OCTETS * to_next
    };
    let stage_units = g.k_block_bytes(parts) / wgmma::UNIT_BYTES;
    let mma_batch_units = mma_batch_bytes(step_parts) / wgmma::UNIT_BYTES;
    let first_pixels = wgmma::unit(memory.halos.addr(0)) + first_half * half_units;
    let first_filters = wgmma::unit(memory.filters.addr(0)) + filter_tile * mma_batch_units;

    // In the ping-pong schedule each warpgroup has every second tile, and skips the stages of the others.
    let ping_pong = if has_half {
        0
    } else {
        memory.mainloop.schedule.shift()
    };
    let mut number = ping_pong * warpgroup();
    if number == 1 {
        halo = halo.skip(memory.mainloop.halo_skip, &halo_pipeline);
        filters = filters.skip(memory.mainloop.filter_skip, &filter_pipeline);
    }

    while memory.has_tile(number) {
        let round = opaque::to_compiler(number) >> ping_pong;
        let parity = round & 1;
        if ping_pong == 1 {
            // The phase of parity 1 of a new barrier counts as over, so the first warpgroup begins.
            let warpgroup = warpgroup();
            memory.order_barrier(warpgroup).wait(parity ^ 1 ^ warpgroup);
        }
        let layout = layout::<F, SUMS>(g, parts);
        // The operands of the MMA batch from step `step` of the K block on, which begin at these units.
        let operands = |step: u32, [filters_at, pixels_at]: [u32; 2]| {
            let filter = |i: u32| {
                let first = filters_at + i * step_parts * MMA_STEP_UNITS;
                MatrixDescriptor::laid_out(first, FILTER_LAYOUT)
            };
            let pixel = |i: u32| {
                let first = pixels_at + memory.offsets.load(step + i);
                MatrixDescriptor::laid_out(first, layout)
            };
            let filter_operands = Operands {
                first: [filter(0), filter(1), filter(2)],
                low: MMA_STEP_UNITS,
            };
            let pixel_operands = Operands {
                first: [pixel(0), pixel(1), pixel(2)],
                low: g.halo_k_vectors,
            };
            // Computed for each MMA batch; a kept value would take a register.
            let to_next = opaque::to_compiler(g.interleaved_octets[0]);
            let second = if F::INTERLEAVED {
                to_next
            } else {
                HALF_OCTETS * to_next
            };
            (filter_operands, pixel_operands, second)
        };
        // Resident filters were waited for in the first round, and are not released.
        let has_filters = F::LEAVES_IN_FLIGHT && round > 0 && filter_pipeline.wraps == 0;
        let wait_for_halo = |halo: PipelineState| {
            halo_pipeline.full(halo.stage).wait(halo.parity);
            first_pixels + halo.stage * stage_units
        };
        let wait_for_filters = |filters: PipelineState| {
            filter_pipeline.full(filters.stage).wait(filters.parity);
            first_filters + filters.stage * tiles * mma_batch_units
        };
        let [mut k_block, end_k_block] = work.k_blocks();
        let mut step = opaque::to_compiler(0);
        let mut pixels_at = wait_for_halo(halo);
        let mut filters_at = first_filters;
        if !has_filters {
            filters_at = wait_for_filters(filters);
        }
        let (filter_operands, pixel_operands, second) = operands(step, [filters_at, pixels_at]);
        let mut sums = F::start_sum(filter_operands, pixel_operands, second);
        let mut used = Used::default();
        loop {
            opaque::not_unrolled();
            F::settle_older(&sums);
            if F::LEAVES_IN_FLIGHT {
                used.release(&filter_pipeline, &halo_pipeline);
            }
            step = opaque::to_compiler(step + MMA_BATCH_STEPS);
            let ends_k_block = step == g.mma_steps;
            used = Used {
                filters: (!has_filters).then_some(filters.stage),
                halo: ends_k_block.then_some(halo.stage),
            };
            // Otherwise the stage would be released only when the next K block is full. A producer that
            // converts into the stage would then wait for other producers.
            if !F::LEAVES_IN_FLIGHT || ends_k_block && releases_early::<F>(memory) {
                F::settle(&sums);
                used.release(&filter_pipeline, &halo_pipeline);
            }
            if !has_filters {
                filters = filters.next(&filter_pipeline);
            }
            if ends_k_block {
                halo = halo.next(&halo_pipeline);
                k_block += 1;
                if k_block == end_k_block {
                    break;
                }
                pixels_at = wait_for_halo(halo);
                step = 0;
            }
            filters_at += tiles * mma_batch_units;
            if !has_filters {
                filters_at = wait_for_filters(filters);
            }
            let (filter_operands, pixel_operands, second) = operands(step, [filters_at, pixels_at]);
            sums = F::add(sums, filter_operands, pixel_operands, second);
        }
        if ping_pong == 1 {
            // The warp has waited for all stages of its tile; the next stages belong to the other warpgroup.
            release(memory.order_barrier(1 - warpgroup()));
            halo = halo.skip(memory.mainloop.halo_skip, &halo_pipeline);
            filters = filters.skip(memory.mainloop.filter_skip, &filter_pipeline);
        }
        let mut input_descale = 1.0;
        if F::OPERANDS.scaled {
            // Loads, while the last MMA batch runs.
            let place = memory.coord(opaque::to_compiler(number));
            input_descale = output.scales.descale(place.sample);
        }
        let mut sums = F::finish(sums);
        used.release(&filter_pipeline, &halo_pipeline);
        let is_mine =
            work.split_k == 1 || cluster_reduce::is_owner(g, memory, parity, number, &mut sums);
        if is_mine {
            // Here, to save registers during the reduction.
            let place = memory.coord(opaque::to_compiler(number));
            let results = Results::<F, SUMS, E>::new(g, memory, output, &place);
            results.finish(sums, input_descale);
        }
        // Loaded again, to save a register.
        let turns = opaque::to_compiler(memory.mainloop.schedule.shift());
        number = opaque::to_compiler(number) + if has_half { 1 } else { 1 << turns };
    }
}
const _: () = assert!(MMA_BATCH_STEPS == 3);
