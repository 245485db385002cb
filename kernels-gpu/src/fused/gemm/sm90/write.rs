//! The writers, which move results and residuals between shared memory and the tensors.

use cuda_std::opaque;
use cuda_std::tensor_map::{TensorMap, commit_stores, copy_box, store_box, wait_stores_read};
use launch_config::Presence;
use launch_config::gemm::LINE_BYTES;

use super::Memory;
use crate::parts::pipeline::PipelineState;

/// Stores the results of all tiles of a warpgroup. A buffer that has been read is filled with the residual of
/// its next tile. With two buffers no consumer therefore waits for a residual.
///
/// # Safety
/// One thread calls it, after the barrier that follows the initialisation. `y` and, if there is a residual,
/// `residual` are tensor maps of the output's boxes.
#[inline(always)]
pub(super) unsafe fn write(
    memory: &Memory,
    number: u32,
    (residual, adds_residual): (&TensorMap, Presence),
    y: &TensorMap,
) {
    let g = &memory.g;
    let [pixels, filters] = memory.tile;
    let pipeline = memory.results_pipeline(number);
    let parts = filters / g.line_values();
    // A box that is outside of the tensor altogether is left out.
    let at = |tile: u32, part: u32| {
        let [pixel, filter] = memory.start(tile);
        let at = [
            filter + part * g.line_values(),
            pixel + memory.first_pixel(number),
        ];
        let [filter, pixel] = at.map(u32::cast_signed);
        [filter, pixel, 0, 0, 0]
    };
    let staged = |buffer: u32, part: u32| {
        let results = memory.results(number, buffer);
        results.addr(0).offset(part * pixels * LINE_BYTES)
    };
    let make_room = |tile: u32, buffer: u32| {
        let room = pipeline.empty(buffer);
        if adds_residual.is_present() {
            room.arrive_expect(pixels * filters * g.element_bytes);
            let mut part = 0;
            while part < parts {
                copy_box(staged(buffer, part), residual, at(tile, part), room);
                part = opaque::to_compiler(part + 1);
            }
        } else {
            room.arrive();
        }
    };
    let store = |tile: u32, state: PipelineState| {
        pipeline.full(state.stage).wait(state.parity);
        let mut part = 0;
        while part < parts {
            store_box(staged(state.stage, part), y, at(tile, part));
            part = opaque::to_compiler(part + 1);
        }
        commit_stores();
        wait_stores_read::<0>();
    };
    // There are only loops here: behind a branch the assembler would no longer see that all values are
    // uniform over a warp, here and in the producers.
    let step = memory.tile_step();
    let mut tile = memory.first_tile(number);
    let (mut next, mut buffer) = (tile, 0);
    while (buffer < g.buffers) & (next < g.tiles) {
        opaque::not_unrolled();
        make_room(next, buffer);
        next += step;
        buffer = opaque::to_compiler(buffer + 1);
    }
    let mut state = PipelineState::FIRST;
    while next < g.tiles {
        opaque::not_unrolled();
        store(tile, state);
        make_room(next, state.stage);
        state = state.next(&pipeline);
        tile += step;
        next = opaque::to_compiler(next + step);
    }
    while tile < g.tiles {
        opaque::not_unrolled();
        store(tile, state);
        state = state.next(&pipeline);
        tile = opaque::to_compiler(tile + step);
    }
}
