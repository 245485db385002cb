//! Architectures: their kernels, and what chooses launches on them.
//!
//! The tiles, conditions and costs of an architecture are in the file or folder of its name below
//! `implicit_gemm`.

use crate::implicit_gemm::{GemmConfig, GemmDevice, GemmTile, sm80, sm90, sm100};

/// An architecture with its kernels, tiles and cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// Ampere and Ada, compute capability 8: `mma.sync` and `cp.async`.
    Sm80,
    /// Hopper, compute capability 9.0: warpgroup MMA, tensor maps, clusters.
    Sm90,
    /// Blackwell, compute capability 10 and above. It has no kernels yet and runs those of
    /// [`Sm80`](Self::Sm80).
    Sm100,
}

impl Arch {
    /// Returns the architecture of a GPU of this compute capability; `None` if it is older than every kernel.
    #[must_use]
    pub const fn of_capability(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (0..=7, _) => None,
            (8, _) => Some(Self::Sm80),
            (9, 0) => Some(Self::Sm90),
            _ => Some(Self::Sm100),
        }
    }

    /// Returns the architecture whose kernels run on this one: itself, or its fallback.
    #[must_use]
    pub const fn kernels(self) -> Self {
        match self {
            Self::Sm100 => Self::Sm80,
            own => own,
        }
    }

    /// Whether the architecture has kernels with clusters of blocks.
    #[must_use]
    pub const fn has_clusters(self) -> bool {
        matches!(self.kernels(), Self::Sm90)
    }

    /// Whether the architecture has kernels with tensor maps.
    #[must_use]
    pub const fn has_tensor_maps(self) -> bool {
        matches!(self.kernels(), Self::Sm90)
    }

    /// Whether the architecture has kernels with warpgroup MMA (`wgmma`).
    #[must_use]
    pub const fn has_warpgroup_mma(self) -> bool {
        matches!(self.kernels(), Self::Sm90)
    }

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

    /// The architecture's name in PTX, without a suffix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
        }
    }
}

/// Dense multiply-adds of a multiprocessor's tensor cores per cycle, with f32 accumulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorRates {
    /// With operands of f16 or bf16.
    pub f16: u32,
    /// With operands of tf32.
    pub tf32: u32,
}

impl TensorRates {
    /// The rates of tensor cores that multiply half as many operands of tf32 as of f16.
    pub(crate) const fn of_f16(f16: u32) -> Self {
        Self { f16, tf32: f16 / 2 }
    }
}

/// Constants of the cost model of the implicit GEMM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Epilogue cost of an output on a multiprocessor, in ten-thousandths of a cycle.
    pub(crate) result: u64,
    /// Bytes of a halo tile that a multiprocessor copies in a cycle.
    pub(crate) copied_per_cycle: u64,
    /// Cycles of a tile that no other work of its block overlaps.
    pub(crate) tile_cycles: u64,
}
