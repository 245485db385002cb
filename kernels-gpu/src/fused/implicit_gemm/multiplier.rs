//! The interface of the mainloop's MMA, for `mma.sync` and `wgmma`.

use cuda_std::global::Global;

use super::format::Format;
use super::halo::Halo;
use super::results::Results;
use super::tile::{Sums, TileShape};

/// The MMA of a block's filters with a halo tile.
pub(super) trait Multiplier<F: Format, S: TileShape>: Sized {
    /// Loads the first filters of the block from its `operands`.
    ///
    /// # Safety
    /// All threads of the block make this call, after the barrier that follows `find_coords`.
    unsafe fn new(operands: Global<u32>, halo: &Halo<'_>, results: &Results<'_, F, S>) -> Self;

    /// Makes the thread's copies visible to the MMA instructions. A barrier follows.
    fn show_halo();

    /// Accumulates the K block in stage `buffer`.
    ///
    /// # Safety
    /// All threads of the block make this call, and the halo tile is in the stage.
    unsafe fn multiply_k_block(
        &mut self,
        sums: &mut Sums,
        halo: &Halo<'_>,
        results: &Results<'_, F, S>,
        buffer: u32,
    );

    /// Finishes the accumulators of a tile.
    ///
    /// # Safety
    /// All threads of the block make this call.
    unsafe fn end(&mut self, sums: &mut Sums, results: &Results<'_, F, S>);
}
