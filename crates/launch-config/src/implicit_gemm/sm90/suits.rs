//! The conditions on which tiles of warpgroup MMA may be the fastest.

use super::super::{GemmConfig, GemmDevice, MMA_BATCH_STEPS, MMA_STEP_K_VECTORS};

/// The fewest MMA steps for which a warpgroup pays: a partial MMA batch costs as much as a full one, and
/// nothing hides the loads of the first batch's filters.
const MIN_WARPGROUP_STEPS: u32 = 9;

/// Whether the tile of `config` may be the fastest for its problem. Tiles of `mma.sync` suit every problem.
pub(crate) fn suits(config: &GemmConfig, device: &GemmDevice) -> bool {
    !config.tile.mainloop.is_warpgroup_mma() || config.suits_warpgroups(device)
}

impl GemmConfig {
    /// Checks whether `wgmma` may be faster. Steps must have two K-vectors (with one plane: columns of taps
    /// that leave at most an eighth of their pairs empty), and there must be enough steps. A tile of one
    /// warpgroup needs room for a second block on the multiprocessor, because a single one leaves the tensor
    /// cores idle between its MMA batches. A part of a warp-specialized tile may have no filters
    /// ([`quarters`](Self::quarters)). A warp-specialized tile writes results while the other warpgroup
    /// multiplies. Without a norm, or with more than one MMA batch of single-part values, it therefore needs
    /// no minimum of steps.
    fn suits_warpgroups(&self, device: &GemmDevice) -> bool {
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
}
