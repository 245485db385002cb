//! The cost model of the implicit GEMM, which chooses tiles and decides where other kernels are faster.

use super::{GemmConfig, GemmDevice, GemmTile, MMA_BATCH_STEPS, MMA_STEP_K_VECTORS, Mainloop};
use crate::conv::ConvGeometry;

/// The fewest MMA steps for which a warpgroup pays: a partial MMA batch costs as much as a full one, and
/// nothing hides the loads of the first batch's filters.
const MIN_WARPGROUP_STEPS: u32 = 9;

/// Units of step costs in a cycle.
const STEP_COSTS_PER_CYCLE: u64 = 10_000;

/// Epilogue cost of an output on a multiprocessor: about 0.3 cycles.
const RESULT_COST: u64 = 3_000;

/// Bytes of a halo tile that a multiprocessor copies in a cycle.
pub(super) const COPIED_PER_CYCLE: u64 = 16;

/// Cycles of a tile that no other work of its block overlaps.
const TILE_CYCLES: u64 = 3_000;

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

    /// Checks whether `wgmma` may be faster. Steps must have two K-vectors (with one plane: columns of taps
    /// that leave at most an eighth of their pairs empty), and there must be enough steps. A tile of one
    /// warpgroup needs room for a second block on the multiprocessor, because a single one leaves the tensor
    /// cores idle between its MMA batches. A part of a warp-specialized tile may have no filters
    /// ([`quarters`](Self::quarters)). A warp-specialized tile writes results while the other warpgroup
    /// multiplies. Without a norm, or with more than one MMA batch of single-part values, it therefore needs
    /// no minimum of steps.
    pub(super) fn suits_warpgroups(&self, device: &GemmDevice) -> bool {
        let g = &self.geometry;
        let paired_columns = g.column_taps.next_multiple_of(MMA_STEP_K_VECTORS);
        let fills_pairs = 8 * g.column_taps >= 7 * paired_columns;
        let batches = g.k_blocks * g.mma_steps / MMA_BATCH_STEPS;
        let overlaps = self.tile.is_warp_specialized()
            && (g.epilogue.is_store() || self.format.step_parts() == 1 && batches > 1);
        let pairs = g.planes > 1 || (g.pair_k_vectors > 0 && (fills_pairs || overlaps));
        let mma_steps = pairs && (g.k_blocks * g.mma_steps >= MIN_WARPGROUP_STEPS || overlaps);
        if !self.tile.is_warp_specialized() {
            return mma_steps && self.blocks_per_processor(device) > 1;
        }
        let places = u64::from(g.filter_tiles * self.tile.filters());
        let filters = u64::from(g.conv.group_k) * u64::from(g.outputs_d);
        mma_steps && 4 * filters >= self.quarters() * places
    }

    /// The quarters of a warp-specialized tile that filters must fill, so that it is faster than other tiles
    /// (docs/tuning.md). Other kernels write shuffled results twice, and all results before a reduction.
    fn quarters(&self) -> u64 {
        let (format, g) = (self.format, &self.geometry);
        match g.epilogue {
            kind if kind.is_shuffled() => 1,
            kind if kind.is_reduced() => 2,
            _ if format.parts > 1 => 3,
            kind if kind.is_store() && format.is_stored() => 1,
            kind if kind.is_store() || g.planes > 1 => 2,
            _ => 3,
        }
    }

    /// Approximate cycles of the implicit GEMM on a device. Blocks run in rounds; a round takes the time of
    /// the tiles that share a multiprocessor.
    pub(super) fn cost(&self, device: &GemmDevice, batch: u64) -> Option<u64> {
        let g = &self.geometry;
        let work_tiles = batch.checked_mul(g.pixel_tiles().into())?;
        let outputs = u64::from(self.tile.filters() * self.tile.pixels());
        let products = if self.format.step_parts() == 2 { 3 } else { 1 };
        let mma_steps = u64::from(g.k_blocks) * u64::from(g.mma_steps);
        let consumer = outputs * mma_steps * products * self.tile.step_cost(device.rate())
            / STEP_COSTS_PER_CYCLE;
        let mut finishing = outputs * RESULT_COST / STEP_COSTS_PER_CYCLE;
        if g.epilogue.is_store() {
            finishing += g.partial_sector_cycles(self.tile, self.format);
        }
        if self.tile.is_warp_specialized() {
            return self.warp_specialized_cost(
                device,
                work_tiles,
                [consumer, finishing, TILE_CYCLES],
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
            / COPIED_PER_CYCLE;
        // `wgmma` is asynchronous, so its time overlaps with copies.
        let staged = match self.tile.mainloop {
            Mainloop::Sm80CpAsync => consumer + copying,
            _ => consumer.max(copying),
        };
        let tile = staged + finishing;
        rounds
            .checked_mul(together)?
            .checked_mul(tile + TILE_CYCLES / together)
    }
}

impl GemmTile {
    /// Approximate cycles of an MMA step of a single-part format.
    pub(super) fn step_cycles(self, device: &GemmDevice) -> u64 {
        let outputs = u64::from(self.filters() * self.pixels());
        outputs * self.step_cost(device.rate()) / STEP_COSTS_PER_CYCLE
    }
}
