//! The writers: what moves results, and residuals, between shared memory and the tensors.

use cuda_std::opaque;
use cuda_std::tensor_map::{TensorMap, commit_stores, copy_box, store_box, wait_stores_read};
use launch_config::Presence;
use launch_config::gemm::{LINE_BYTES, LINE_VALUES};

use super::Memory;

/// Stores the results of all tiles of a warpgroup, and before each makes room for them: waits until the tile
/// before has been read, and starts to copy the residual to its place.
///
/// # Safety
/// One thread calls it, after the barrier behind the initialisation. `residual` and `y` are tensor maps of
/// the output's boxes, `residual` if there is one.
#[inline(always)]
pub(super) unsafe fn write(
    memory: &Memory,
    number: u32,
    (residual, adds_residual): (&TensorMap, Presence),
    y: &TensorMap,
) {
    let g = &memory.g;
    let [pixels, filters] = memory.tile;
    let (room, there) = (memory.room(number), memory.there(number));
    let parts = filters / LINE_VALUES;
    let mut parity = 0;
    let mut tile = memory.first_tile(number);
    while tile < g.tiles {
        let [pixel, filter] = memory.start(tile).map(|at| at as i32);
        let pixel = pixel + memory.first_pixel(number) as i32;
        // A box that is outside of the tensor altogether is left out.
        let at = |part: u32| [filter + (part * LINE_VALUES) as i32, pixel, 0, 0, 0];
        let staged = |part: u32| {
            let results = memory.results(number);
            results.addr(0).offset(part * pixels * LINE_BYTES)
        };
        let mut part = 0;
        if adds_residual.is_present() {
            room.arrive_expect(pixels * filters * 2);
            while part < parts {
                copy_box(staged(part), residual, at(part), room);
                part = opaque::to_compiler(part + 1);
            }
        } else {
            room.arrive();
        }
        there.wait(parity);
        part = 0;
        while part < parts {
            store_box(staged(part), y, at(part));
            part = opaque::to_compiler(part + 1);
        }
        commit_stores();
        wait_stores_read::<0>();
        tile += memory.tile_step();
        parity ^= 1;
    }
}
