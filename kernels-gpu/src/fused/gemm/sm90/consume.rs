//! The consumer warpgroups: the mainloop.

use cuda_std::mbarrier::Barrier;
use cuda_std::wgmma::{self, InFlight, MatrixDescriptor, MatrixLayout};
use cuda_std::{opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::gemm::{LINE_BYTES, STAGE_STEPS, WARPGROUP_WARPS};

use super::results::Results;
use super::{MMA_ROWS, Memory, Multiply, Output};
use crate::parts::pipeline::PipelineState;

/// Units (16 bytes) of a line that a step reads.
const STEP_UNITS: u32 = LINE_BYTES / wgmma::UNIT_BYTES / STAGE_STEPS;

/// Arrives at a barrier for the warp.
#[inline(always)]
unsafe fn release(barrier: Barrier) {
    if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
        barrier.arrive();
    }
}

/// The layout of an operand in a stage: parts of swizzled lines, one part for each tap.
#[derive(Clone, Copy)]
struct Operand {
    layout: MatrixLayout,
    /// The start of each step, in units behind the first line.
    steps: [u32; STAGE_STEPS as usize],
}
const _: () = assert!(STAGE_STEPS == 4);

impl Operand {
    #[inline(always)]
    fn new(lines: u32, unit_shift: u32) -> Self {
        // A line has one, two or four steps.
        let shift = unit_shift - STEP_UNITS.trailing_zeros();
        let of_line = (1 << shift) - 1;
        let start =
            |step: u32| (step >> shift) * (lines << unit_shift) + (step & of_line) * STEP_UNITS;
        Self {
            layout: MatrixLayout::swizzled(unit_shift, 8 << unit_shift),
            steps: [0, 1, 2, 3].map(start),
        }
    }

    /// Returns the steps of a stage whose first line starts at unit `first`.
    #[inline(always)]
    fn steps(&self, first: u32) -> [MatrixDescriptor; STAGE_STEPS as usize] {
        (self.steps).map(|step| MatrixDescriptor::laid_out(first + step, self.layout))
    }
}

/// Runs the mainloop and the epilogue of all of the warpgroup's tiles, of `BLOCKS * MMA_ROWS` pixels and
/// `2 * SUMS` filters.
///
/// # Safety
/// All threads of a warpgroup call it, after the barrier that follows the initialisation; `warp` is the
/// warp's index in the block.
#[inline(always)]
pub(super) unsafe fn consume<T: Multiply<SUMS>, const SUMS: usize, const BLOCKS: usize>(
    memory: &Memory,
    output: &Output<'_, T>,
    warp: u32,
) {
    let g = &memory.g;
    let number = warp / WARPGROUP_WARPS;
    let ping_pong = g.schedule.shift();
    let results = Results::<T, SUMS, BLOCKS>::new(memory, output, number);
    let stages = memory.stages();
    let [first_pixels, stage_units] = [
        wgmma::unit(memory.stage(0)) + (memory.first_pixel(number) << g.unit_shift),
        memory.layout.stage_bytes / wgmma::UNIT_BYTES,
    ];
    // Filters are resident, or behind the pixels of each stage.
    let filters_resident = g.residency.is_resident();
    let [first_filters, filter_stage_units] = if filters_resident {
        let resident = wgmma::unit(memory.resident(0));
        [resident, memory.filter_bytes() / wgmma::UNIT_BYTES]
    } else {
        let first = wgmma::unit(memory.stage(0)) + g.tile_pixels * LINE_BYTES / wgmma::UNIT_BYTES;
        [first, stage_units]
    };
    let pixel_operand = Operand::new(g.tile_pixels, g.unit_shift);
    let filter_operand = Operand::new(2 * SUMS as u32, g.unit_shift);
    let mut state = PipelineState::FIRST;
    // In the ping-pong schedule each warpgroup skips the stages of the other one's tiles.
    if ping_pong * number == 1 {
        state = state.skip(g.tile_skip, &stages);
    }
    let mut tile = memory.first_tile(number);
    let pipeline_of_results = memory.results_pipeline(number);
    let mut state_of_results = PipelineState::FIRST;
    let (mut order_parity, mut channels_of) = (0, None);
    while tile < g.tiles {
        let [_, filter] = memory.start(tile);
        if channels_of.replace(filter) != Some(filter) {
            results.keep_channels(filter);
            if filters_resident {
                memory.filters_are_there().wait(0);
            }
        }
        if ping_pong == 1 {
            // The phase of parity 1 of a new barrier counts as over, so the first warpgroup begins.
            memory.order_barrier(number).wait(order_parity ^ 1 ^ number);
        }
        // Tiles of one block of rows do not use `second`. An array of both would be in local memory.
        let [mut first, mut second] = [(); 2].map(|()| InFlight::at_rest(const { [0.0; SUMS] }));
        let mut to_release = None;
        let mut k_block = 0;
        // There is a K block: without this loop's form, the compiler would zero the accumulators twice.
        loop {
            opaque::not_unrolled();
            stages.full(state.stage).wait(state.parity);
            let pixels = first_pixels + state.stage * stage_units;
            let filter_stage = if filters_resident {
                k_block
            } else {
                state.stage
            };
            let filters = filter_operand.steps(first_filters + filter_stage * filter_stage_units);
            first = T::add(first, &pixel_operand.steps(pixels), &filters);
            if BLOCKS == 1 {
                first.wait_for_older::<1>();
            } else {
                let rows = pixel_operand.steps(pixels + (MMA_ROWS << g.unit_shift));
                second = T::add(second, &rows, &filters);
                second.wait_for_older::<2>();
            }
            if let Some(stage) = to_release.replace(state.stage) {
                release(stages.empty(stage));
            }
            state = state.next(&stages);
            k_block = opaque::to_compiler(k_block + 1);
            if k_block == g.k_blocks {
                break;
            }
        }
        if ping_pong == 1 {
            // The warp has waited for all stages of its tile; the next ones belong to the other warpgroup.
            release(memory.order_barrier(1 - number));
            state = state.skip(g.tile_skip, &stages);
        }
        let sums = if BLOCKS == 1 {
            [T::wait(first), const { [0.0; SUMS] }]
        } else {
            let second = T::wait(second);
            [T::wait(first), second]
        };
        if let Some(stage) = to_release {
            release(stages.empty(stage));
        }
        results.finish(sums, state_of_results);
        // The warp's results are in the buffer.
        release(pipeline_of_results.full(state_of_results.stage));
        state_of_results = state_of_results.next(&pipeline_of_results);
        tile += memory.tile_step();
        order_parity ^= 1;
    }
}
