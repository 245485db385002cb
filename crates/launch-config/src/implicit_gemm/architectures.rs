//! The tiles, conditions, costs and rates of each architecture, from the file or folder of its name.

use super::{GemmConfig, GemmDevice, GemmTile, sm80, sm90, sm100};
use crate::arch::{Arch, Costs, TensorRates};

impl Arch {
    /// The tiles that an implicit GEMM may have.
    #[must_use]
    pub const fn tiles(self) -> &'static [GemmTile] {
        match self {
            Self::Sm80 => &sm80::TILES,
            Self::Sm90 => &sm90::TILES,
            Self::Sm100 => &sm100::TILES,
        }
    }

    /// Whether the tile of `config` may be the fastest for its problem.
    pub(crate) fn suits(self, config: &GemmConfig, device: &GemmDevice) -> bool {
        match self {
            Self::Sm80 => sm80::suits(config, device),
            Self::Sm90 => sm90::suits(config, device),
            Self::Sm100 => sm100::suits(config, device),
        }
    }

    /// The constants of the cost model.
    pub(crate) const fn costs(self) -> Costs {
        match self {
            Self::Sm80 => sm80::COSTS,
            Self::Sm90 => sm90::COSTS,
            Self::Sm100 => sm100::COSTS,
        }
    }

    /// Returns the rates of a GPU of this compute capability, if they are known.
    ///
    /// Sources: NVIDIA's architecture whitepapers (A100, Ada, H100, Blackwell), computed from TFLOP/s, number
    /// of multiprocessors and boost clock.
    #[must_use]
    pub const fn rates(major: u32, minor: u32) -> Option<TensorRates> {
        match Self::of_capability(major, minor) {
            None => None,
            Some(Self::Sm80) => sm80::rates(minor),
            Some(Self::Sm90) => Some(sm90::RATES),
            Some(Self::Sm100) => sm100::rates(major),
        }
    }

    /// The rates of the architecture's GPUs for data centres, for a device whose rates are unknown.
    #[must_use]
    pub const fn usual_rates(self) -> TensorRates {
        match self {
            Self::Sm80 => sm80::USUAL_RATES,
            Self::Sm90 => sm90::RATES,
            Self::Sm100 => sm100::USUAL_RATES,
        }
    }
}
