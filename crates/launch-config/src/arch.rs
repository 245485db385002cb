//! Architectures: their kernels and their tensor core throughput.

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

/// Returns the dense multiply-adds of 16-bit operands with f32 accumulation, per cycle and multiprocessor of
/// this compute capability.
///
/// Sources: NVIDIA's architecture whitepapers (A100, Ada, H100, Blackwell), computed from TFLOP/s, number of
/// multiprocessors and boost clock.
#[must_use]
pub const fn f16_multiply_adds_per_cycle(major: u32, minor: u32) -> u32 {
    match (major, minor) {
        (8, 0) => 1024,
        (8, _) => 512,
        (9, _) => 2048,
        (10, _) => 4096,
        _ => 512,
    }
}
