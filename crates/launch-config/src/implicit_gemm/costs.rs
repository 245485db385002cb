//! The cost model of the implicit GEMM, which chooses tiles and decides where other kernels are faster.

use super::{GemmConfig, GemmDevice, GemmTile, Mainloop};
use crate::conv::ConvGeometry;

/// Units of step costs in a cycle.
const STEP_COSTS_PER_CYCLE: u64 = 10_000;

/// Filters of a group times the length of their reduction, below which tensor cores do not pay.
const MIN_PRODUCTS: u64 = 200;

/// The same limit for a convolution with more input than output.
const FEW_PRODUCTS: u64 = 2048;

impl GemmConfig {
    /// Whether the implicit GEMM takes less time than the direct convolution with separate statistics.
    ///
    /// The direct convolution takes less time with:
    /// - few multiply-adds for each pixel (depthwise groups, one filter, a 3x3 filter from one channel to
    ///   eight): a tile always has at least 16 filters, and a step 16 values of the reduction;
    /// - more input than output, and not many multiply-adds: the reformat costs more than tensor cores save.
    ///
    /// The answer depends on the shape of a sample alone. The bounds come from measurements (docs/tuning.md).
    #[must_use]
    pub fn pays(conv: &ConvGeometry) -> bool {
        let products = u64::from(conv.group_k) * u64::from(conv.reduction());
        let inputs = u64::from(conv.input_channels()) * u64::from(conv.input_pixels());
        let outputs = u64::from(conv.output_channels()) * u64::from(conv.output_pixels());
        products >= MIN_PRODUCTS && (inputs <= outputs || products >= FEW_PRODUCTS)
    }

    /// Approximate cycles of the implicit GEMM on a device, by which tiles are chosen. Blocks run in rounds;
    /// a round takes the time of the tiles that share a multiprocessor. Returns `None` if they are too many
    /// to count.
    #[must_use]
    pub fn cost(&self, device: &GemmDevice, batch: u64) -> Option<u64> {
        let (g, costs) = (&self.geometry, device.arch.costs());
        let work_tiles = batch.checked_mul(g.pixel_tiles().into())?;
        let outputs = u64::from(self.tile.filters() * self.tile.pixels());
        let products = if self.format.step_parts() == 2 { 3 } else { 1 };
        let mma_steps = u64::from(g.k_blocks) * u64::from(g.mma_steps);
        let consumer = outputs * mma_steps * products * self.tile.step_cost(device.rates())
            / STEP_COSTS_PER_CYCLE;
        let mut finishing = outputs * costs.result / STEP_COSTS_PER_CYCLE;
        if g.epilogue.is_store() {
            finishing += g.partial_sector_cycles(self.tile, self.format);
        }
        if self.tile.is_warp_specialized() {
            return self.warp_specialized_cost(
                device,
                work_tiles,
                [consumer, finishing, costs.tile_cycles],
            );
        }
        let together = self.blocks_per_processor(device);
        let at_once = u64::from(device.multiprocessors) * u64::from(together);
        let tiles = work_tiles.checked_mul(g.filter_sets().into())?;
        let rounds = tiles.div_ceil(at_once);
        // With fewer tiles, fewer blocks share a multiprocessor; but a single block is not twice as fast as
        // two.
        let together = tiles
            .div_ceil(device.multiprocessors.into())
            .clamp(2, u64::from(together).max(2));
        let copying = u64::from(g.k_blocks) * u64::from(g.k_block_bytes(self.format.parts))
            / costs.copied_per_cycle;
        // `wgmma` is asynchronous, so its time overlaps with copies.
        let staged = match self.tile.mainloop {
            Mainloop::Sm80CpAsync => consumer + copying,
            _ => consumer.max(copying),
        };
        let tile = staged + finishing;
        rounds
            .checked_mul(together)?
            .checked_mul(tile + costs.tile_cycles / together)
    }
}

impl GemmTile {
    /// Approximate cycles of an MMA step of a single-part format.
    pub(super) fn step_cycles(self, device: &GemmDevice) -> u64 {
        let outputs = u64::from(self.filters() * self.pixels());
        outputs * self.step_cost(device.rates()) / STEP_COSTS_PER_CYCLE
    }
}
