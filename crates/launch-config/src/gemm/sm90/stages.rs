//! The part of K in a stage of a product.

use super::{GemmGeometry, LINE_BYTES, UNIT_BYTES};

/// The binary logarithm of the units of a line.
const MOST_UNIT_SHIFT: u32 = (LINE_BYTES / UNIT_BYTES).trailing_zeros();

impl GemmGeometry {
    /// Channels that a stage has of a tap.
    #[must_use]
    #[inline(always)]
    pub const fn stage_channels(&self) -> u32 {
        (UNIT_BYTES / self.element_bytes) << self.unit_shift
    }

    /// Taps of a stage.
    #[must_use]
    #[inline(always)]
    pub const fn stage_taps(&self) -> u32 {
        (LINE_BYTES / UNIT_BYTES) >> self.unit_shift
    }

    /// Returns the geometry with this `unit_shift`, and its number of K blocks.
    fn with_unit_shift(self, unit_shift: u32) -> Option<Self> {
        let of = Self { unit_shift, ..self };
        let parts = of.channels().div_ceil(of.stage_channels());
        let parts = parts.checked_mul(of.conv.taps())?;
        let k_blocks = parts.div_ceil(of.stage_taps());
        Some(Self { k_blocks, ..of })
    }

    /// Returns the geometry with the fewest stages. Fewer channels of a tap in a stage must save at least a
    /// fifth of the stages, because copies of fewer bytes take longer.
    pub(super) fn with_fewest_stages(self) -> Option<Self> {
        let mut best = self.with_unit_shift(MOST_UNIT_SHIFT)?;
        for unit_shift in (1..MOST_UNIT_SHIFT).rev() {
            let of = self.with_unit_shift(unit_shift)?;
            if 5 * u64::from(of.k_blocks) <= 4 * u64::from(best.k_blocks) {
                best = of;
            }
        }
        Some(best)
    }
}
