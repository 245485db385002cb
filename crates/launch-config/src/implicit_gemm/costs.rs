//! What products cost, by which tiles are chosen and other kernels are preferred.

use super::{GemmConfig, GemmDevice, GemmTile, MMA_STEP_K_VECTORS};
use crate::conv::ConvGeometry;

/// Fewer steps than this do not pay for a warpgroup: a chain of them that is not full costs as much as a full
/// one, and the first one's filters are waited for.
const MIN_WARPGROUP_STEPS: u32 = 9;

/// What a cycle is in step costs, which are fractions of a cycle.
const STEP_COSTS_PER_CYCLE: u64 = 10_000;

/// What an output takes of a multiprocessor beside its products: about 0.3 cycles.
const RESULT_COST: u64 = 3_000;

/// Bytes of a halo tile that a multiprocessor copies in a cycle.
pub(super) const COPIED_PER_CYCLE: u64 = 16;

/// Cycles of a tile that nothing else of its block overlaps with.
const TILE_CYCLES: u64 = 3_000;

/// Filters of a group times values of their reduction, below which tensor cores do not pay.
const MIN_PRODUCTS: u64 = 200;

/// The same where there is more input than output.
const FEW_PRODUCTS: u64 = 2048;

impl GemmConfig {
    /// Whether the product takes less time than the direct convolution and the norm's own
    /// statistics do.
    ///
    /// | | why |
    /// |---|---|
    /// | few products for each pixel: depthwise groups, one filter, a 3x3 filter from one channel to eight | a tile has at least 16 filters and a step 16 values of the reduction, whether they exist or not |
    /// | more input than output, and not many products | reformatting costs more than the product saves |
    ///
    /// It depends on the shape of a sample alone. The bounds come from measurements (docs/tuning.md).
    #[must_use]
    pub fn pays(conv: &ConvGeometry) -> bool {
        let products = u64::from(conv.group_k) * u64::from(conv.reduction());
        let inputs = u64::from(conv.input_channels()) * u64::from(conv.input_pixels());
        let outputs = u64::from(conv.output_channels()) * u64::from(conv.output_pixels());
        products >= MIN_PRODUCTS && (inputs <= outputs || products >= FEW_PRODUCTS)
    }

    /// Whether warpgroups may be faster: there are two K-vectors for a step (of one plane: columns of taps
    /// that leave no more than an eighth of their pairs empty), enough steps, and, for one warpgroup, room
    /// for a second block, as one alone leaves the tensor cores idle between its chains. Warp-specialized
    /// tiles are for filters that fill three quarters of them.
    pub(super) fn suits_warpgroups(&self, device: &GemmDevice) -> bool {
        let g = &self.geometry;
        let paired_columns = g.column_taps.next_multiple_of(MMA_STEP_K_VECTORS);
        let fills_pairs = 8 * g.column_taps >= 7 * paired_columns;
        let pairs = g.planes > 1 || (g.pair_k_vectors > 0 && fills_pairs);
        let mma_steps = pairs && g.k_blocks * g.mma_steps >= MIN_WARPGROUP_STEPS;
        if !self.tile.is_warp_specialized() {
            return mma_steps && self.blocks_per_processor(device) > 1;
        }
        let places = u64::from(g.filter_tiles * self.tile.filters());
        let filters = u64::from(g.conv.group_k) * u64::from(g.outputs_d);
        mma_steps && 4 * filters >= 3 * places
    }

    /// About how many cycles the product takes on a device. Blocks run in rounds, each as long as its
    /// tiles take that share a multiprocessor.
    pub(super) fn cost(&self, device: &GemmDevice, batch: u64) -> Option<u64> {
        let g = &self.geometry;
        let work_tiles = batch.checked_mul(g.pixel_tiles().into())?;
        let outputs = u64::from(self.tile.filters() * self.tile.pixels());
        let products = if self.format.step_parts() == 2 { 3 } else { 1 };
        let mma_steps = u64::from(g.k_blocks) * u64::from(g.mma_steps);
        let consumer = outputs * mma_steps * products * self.tile.step_cost(device.rate())
            / STEP_COSTS_PER_CYCLE;
        let finishing = outputs * RESULT_COST / STEP_COSTS_PER_CYCLE;
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
        // Where there are fewer, they run beside fewer others; but one alone does not get twice as fast.
        let together = tiles
            .div_ceil(device.multiprocessors.into())
            .clamp(2, u64::from(together).max(2));
        let copying = u64::from(g.k_blocks) * u64::from(g.k_block_bytes(self.format.parts))
            / COPIED_PER_CYCLE;
        // A warpgroup's products run beside its threads.
        let staged = match self.tile.warpgroups {
            0 => consumer + copying,
            _ => consumer.max(copying),
        };
        let tile = staged + finishing;
        rounds
            .checked_mul(together)?
            .checked_mul(tile + TILE_CYCLES / together)
    }
}

impl GemmTile {
    /// About how many cycles a step of values of one part takes.
    pub(super) fn step_cycles(self, device: &GemmDevice) -> u64 {
        let outputs = u64::from(self.filters() * self.pixels());
        outputs * self.step_cost(device.rate()) / STEP_COSTS_PER_CYCLE
    }
}
