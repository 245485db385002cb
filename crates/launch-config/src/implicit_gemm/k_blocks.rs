//! K blocks of a product: how many of the channels' planes a block has in shared memory at a time.

use super::{GemmGeometry, K_VECTOR_BYTES, MMA_BATCH_STEPS, MMA_STEP_K_VECTORS, OperandFormat};

/// Most K-vectors of a filter in one K block.
pub(super) const MAX_K_BLOCK_K_VECTORS: u32 = 1024;

/// Shared memory that a K block should not exceed if it need not: with two of them in each of three
/// blocks on a multiprocessor all find room.
const K_BLOCK_BYTES: u32 = 16 * 1024;

/// The same for warpgroups that multiply split values, of which a multiprocessor holds two.
const SPLIT_WARPGROUP_K_BLOCK_BYTES: u32 = 32 * 1024;

impl GemmGeometry {
    /// Divides the channels into K blocks: as many as a K block's bytes allow, evenly, and an even number
    /// of K-vectors where that can be.
    pub(super) fn choose_k_blocks(&mut self, format: OperandFormat) {
        let OperandFormat { parts, passes, .. } = format;
        let one = parts * self.halo_k_vectors * K_VECTOR_BYTES;
        // Planes come alone or in twos.
        let multiple = match (self.paired, self.pair_k_vectors) {
            (1, 0) => 2,
            _ => 1,
        };
        let bytes = match (self.paired, parts) {
            (0, _) | (_, 1) => K_BLOCK_BYTES,
            _ => SPLIT_WARPGROUP_K_BLOCK_BYTES,
        };
        let max = (bytes / one)
            .min(MAX_K_BLOCK_K_VECTORS / self.taps)
            .clamp(multiple, self.planes.next_multiple_of(multiple));
        let max = max / multiple * multiple;
        // Steps of a K block, for each number of planes in it, and those that all K blocks take together.
        let of_columns = self.paired_mma_steps();
        let mma_steps = |planes: u32| match (self.paired, self.pair_k_vectors) {
            (0, _) => (passes * planes * self.taps).div_ceil(MMA_STEP_K_VECTORS),
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
        // Two K blocks of one part have the same slice of the filter, so that lines can be of both.
        let are_two = parts == 1
            && self.depth_k_blocks > 1
            && best == multiple
            && self.planes.is_multiple_of(2 * best)
            && mma_steps(2 * best) == 2 * mma_steps(best);
        self.slice_planes = if are_two { 2 * best } else { best };
        self.k_blocks = self.planes.div_ceil(best) * self.depth_k_blocks;
        self.mma_steps = mma_steps(best);
        self.offsets = match self.paired {
            0 => passes * self.k_block_k_vectors() + 1,
            _ => self.mma_steps,
        };
    }
}
