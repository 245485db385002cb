//! Architectures: their kernels, and what chooses launches on them.
//!
//! The tiles, conditions and costs of an architecture are in the file or folder of its name below
//! `implicit_gemm`.

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
