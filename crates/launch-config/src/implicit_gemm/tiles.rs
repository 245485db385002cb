//! The properties of the tiles of every architecture.

use super::OperandFormat;
use super::sm80::{self, M16N64, M16N256, M32N128, M64N32, M64N128};
use super::sm90::tiles::{self, W64N128, WARP_SPECIALIZED};
use super::tile::{GemmTile, Mainloop};
use crate::TensorRates;

impl GemmTile {
    /// The label of the tile's kernels; `None` if no architecture has the tile.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            M64N128 => Some("m64n128"),
            M32N128 => Some("m32n128"),
            M16N256 => Some("m16n256"),
            M64N32 => Some("m64n32"),
            M16N64 => Some("m16n64"),
            W64N128 => Some("w64n128"),
            WARP_SPECIALIZED => Some("ws64n256"),
            _ => None,
        }
    }

    /// Whether the tile's kernels in `format` support convolutions without a norm. No kernel of a format with
    /// several parts in an MMA step does: [`OperandFormat::BF16X3`] is used instead. In other formats the
    /// largest tile of each kind of MMA does and, for f32, one tile for few filters.
    #[must_use]
    pub const fn has_store_epilogue(self, format: OperandFormat) -> bool {
        let is_largest = self.mainloop.is_warpgroup_mma() || self.operands == M64N128.operands;
        let is_smaller = self.operands == M32N128.operands && !format.is_stored();
        format.step_parts() == 1 && (is_largest || is_smaller)
    }

    /// Whether the tile has kernels of [`OperandFormat::BF16X3`].
    pub(super) const fn has_bf16x3(self) -> bool {
        self.is_warp_specialized() || self.operands == M32N128.operands
    }

    /// Blocks that a multiprocessor should hold for values of `parts` parts: as many as registers allow.
    #[must_use]
    pub const fn blocks_per_processor(self, parts: u32) -> u32 {
        match self.mainloop {
            Mainloop::Sm80CpAsync => sm80::blocks_per_processor(self, parts),
            _ => tiles::blocks_per_processor(self, parts),
        }
    }

    /// Cost of an MMA step for each output, in ten-thousandths of a cycle, on tensor cores of these rates.
    pub(super) const fn step_cost(self, rates: TensorRates) -> u64 {
        match self.mainloop {
            Mainloop::Sm80CpAsync => sm80::step_cost(self) * sm80::FITTED_RATE / rates.f16 as u64,
            _ => tiles::step_cost(self),
        }
    }
}
