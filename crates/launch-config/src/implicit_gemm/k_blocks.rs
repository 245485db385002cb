//! K blocks: the planes of channels that a block has in shared memory at a time.

use super::{
    ImplicitGemmGeometry, K_VECTOR_BYTES, MMA_BATCH_STEPS, MMA_STEP_K_VECTORS, MmaOperands,
    OperandFormat,
};

/// Most K-vectors of a filter in one K block.
pub(super) const MAX_K_BLOCK_K_VECTORS: u32 = 1024;

/// The preferred limit of a K block's shared memory: a multiprocessor has room for three blocks of two K
/// blocks each.
const K_BLOCK_BYTES: u32 = 16 * 1024;

/// The same for warpgroups with split values: a multiprocessor has room for two such blocks.
const SPLIT_WARPGROUP_K_BLOCK_BYTES: u32 = 32 * 1024;

impl ImplicitGemmGeometry {
    /// Divides the channels into K blocks of equal size, as large as their limit allows, with an even number
    /// of K-vectors where possible.
    pub(super) fn choose_k_blocks(&mut self, format: OperandFormat) {
        let OperandFormat { parts, passes, .. } = format;
        let one = parts * self.halo_k_vectors * K_VECTOR_BYTES;
        // K blocks have single planes or pairs of planes.
        let multiple = match (self.operands, self.pair_k_vectors) {
            (MmaOperands::DESCRIPTOR, 0) => 2,
            _ => 1,
        };
        let bytes = match (self.operands, parts) {
            (MmaOperands::LDMATRIX, _) | (_, 1) => K_BLOCK_BYTES,
            _ => SPLIT_WARPGROUP_K_BLOCK_BYTES,
        };
        let max = (bytes / one)
            .min(MAX_K_BLOCK_K_VECTORS / self.taps)
            .clamp(multiple, self.planes.next_multiple_of(multiple));
        let max = max / multiple * multiple;
        // The MMA steps of a K block by its number of planes, and the steps of all K blocks together.
        let of_columns = self.paired_mma_steps();
        let mma_steps = |planes: u32| match (self.operands, self.pair_k_vectors) {
            (MmaOperands::LDMATRIX, _) => {
                (passes * planes * self.taps).div_ceil(MMA_STEP_K_VECTORS)
            }
            (_, 0) => (passes * (planes / multiple) * self.taps).next_multiple_of(MMA_BATCH_STEPS),
            _ => (passes * of_columns).next_multiple_of(MMA_BATCH_STEPS),
        };
        let all_mma_steps = |planes: u32| self.planes.div_ceil(planes) * mma_steps(planes);
        let mut best = max;
        let mut planes = max;
        while planes > multiple {
            planes -= multiple;
            if all_mma_steps(planes) < all_mma_steps(best) {
                best = planes;
            }
        }
        self.k_block_planes = best;
        // Two single-part K blocks share a slice of the filter, so that a span of channels can cover both.
        let are_two = parts == 1
            && self.depth_k_blocks > 1
            && best == multiple
            && self.planes.is_multiple_of(2 * best)
            && mma_steps(2 * best) == 2 * mma_steps(best);
        self.slice_planes = if are_two { 2 * best } else { best };
        self.k_blocks = self.planes.div_ceil(best) * self.depth_k_blocks;
        self.mma_steps = mma_steps(best);
        self.offsets = match self.operands {
            MmaOperands::LDMATRIX => passes * self.k_block_k_vectors() + 1,
            _ => self.mma_steps,
        };
    }
}
