//! Stages of a product: how many of the channels' planes a block has in shared memory at a time.

use super::{CELL_BYTES, CHAIN_STEPS, GemmGeometry, OperandFormat, STEP_CELLS};

/// Most cells of a filter in one stage.
pub(super) const MAX_STAGE_CELLS: u32 = 1024;

/// Shared memory that a stage should not exceed if it need not: with two of them in each of three
/// blocks on a multiprocessor all find room.
const STAGE_BYTES: u32 = 16 * 1024;

/// The same for warpgroups that multiply split values, of which a multiprocessor holds two.
const SPLIT_WARPGROUP_STAGE_BYTES: u32 = 32 * 1024;

impl GemmGeometry {
    /// Divides the channels into stages: as many as a stage's bytes allow, evenly, and an even number
    /// of cells where that can be.
    pub(super) fn choose_stages(&mut self, format: OperandFormat) {
        let OperandFormat { parts, passes, .. } = format;
        let one = parts * self.patch_cells * CELL_BYTES;
        // Planes come alone or in twos.
        let multiple = match (self.paired, self.pair_cells) {
            (1, 0) => 2,
            _ => 1,
        };
        let bytes = match (self.paired, parts) {
            (0, _) | (_, 1) => STAGE_BYTES,
            _ => SPLIT_WARPGROUP_STAGE_BYTES,
        };
        let most = (bytes / one)
            .min(MAX_STAGE_CELLS / self.taps)
            .clamp(multiple, self.planes.next_multiple_of(multiple));
        let most = most / multiple * multiple;
        // Steps of a stage, for each number of planes in it, and those that all stages take together.
        let of_columns = self.paired_steps();
        let steps = |planes: u32| match (self.paired, self.pair_cells) {
            (0, _) => (passes * planes * self.taps).div_ceil(STEP_CELLS),
            (_, 0) => (passes * (planes / multiple) * self.taps).next_multiple_of(CHAIN_STEPS),
            _ => (passes * of_columns).next_multiple_of(CHAIN_STEPS),
        };
        let all_steps = |planes: u32| self.planes.div_ceil(planes) * steps(planes);
        let mut best = most;
        let mut planes = most;
        while planes > multiple {
            planes -= multiple;
            if all_steps(planes) < all_steps(best) {
                best = planes;
            }
        }
        self.stage_planes = best;
        // Two stages of one part have the same slice of the filter, so that lines can be of both.
        let are_two = parts == 1
            && self.depth_stages > 1
            && best == multiple
            && self.planes.is_multiple_of(2 * best)
            && steps(2 * best) == 2 * steps(best);
        self.slice_planes = if are_two { 2 * best } else { best };
        self.stages = self.planes.div_ceil(best) * self.depth_stages;
        self.steps = steps(best);
        self.offsets = match self.paired {
            0 => passes * self.stage_cells() + 1,
            _ => self.steps,
        };
    }
}
