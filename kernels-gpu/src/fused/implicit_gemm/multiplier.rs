//! What a multiplier of K blocks has to do, whatever its instructions are.

use cuda_std::global::Global;

use super::format::Format;
use super::halo::Halo;
use super::results::Results;
use super::tile::{Sums, TileShape};

/// How a block multiplies its filters with a halo tile.
pub(super) trait Multiplier<F: Format, S: TileShape>: Sized {
    /// Starts with the first filters; `operands` are those of the block.
    ///
    /// # Safety
    /// All threads of the block call it, after the barrier behind `find_places`.
    unsafe fn new(operands: Global<u32>, halo: &Halo<'_>, results: &Results<'_, F, S>) -> Self;

    /// Makes what the thread copied visible to whoever multiplies; a barrier follows.
    fn show_halo();

    /// Adds the products of the K block that lies in `buffer` to the sums.
    ///
    /// # Safety
    /// All threads of the block call it, and the halo tile is there.
    unsafe fn multiply_k_block(
        &mut self,
        sums: &mut Sums,
        halo: &Halo<'_>,
        results: &Results<'_, F, S>,
        buffer: u32,
    );

    /// Ends the sums of a tile.
    ///
    /// # Safety
    /// All threads of the block call it.
    unsafe fn end(&mut self, sums: &mut Sums, results: &Results<'_, F, S>);
}
