//! Tiles of the implicit GEMM.

use super::OPERAND_ROWS;

/// Halves of the pixels of a warp-specialized tile, over which moments are taken.
pub const HALVES: u32 = 2;

/// Warps of a block.
const WARPS: u32 = 4;

/// Pixels of one tensor-core instruction.
pub(super) const INSTRUCTION_PIXELS: u32 = 8;

/// Filters times pixels of a block, and how its warps share them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmTile {
    /// A operands of a warp, of 16 filters each.
    pub operands: u32,
    /// *Octets* of a warp, eight pixels each.
    pub pixel_octets: u32,
    /// Warps along the filters. The remaining factor of the warps is along the pixels.
    pub filter_warps: u32,
    /// The mainloop of the tile's kernels.
    pub mainloop: Mainloop,
}

/// The mainloop of a tile: its MMA instruction, and how operands come to it.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mainloop {
    /// `mma.sync` by single warps, which load their operands by `cp.async` and `ldmatrix`.
    Sm80CpAsync = 0,
    /// `wgmma` by one warpgroup on pixels that it loads by `cp.async`, with filters in registers.
    Sm90CpAsync = 1,
    /// `wgmma` by two consumer warpgroups on pixels and filters that producer warps load.
    Sm90WarpSpecialized = 2,
}

impl Mainloop {
    /// Whether the instruction is `wgmma`.
    #[must_use]
    #[inline(always)]
    pub const fn is_warpgroup_mma(self) -> bool {
        !matches!(self, Self::Sm80CpAsync)
    }
}

/// MMA steps of split values between two accumulator promotions; see `implicit_gemm::sm80::warps` of
/// `kernels_gpu`.
pub const PROMOTION_MMA_STEPS: u32 = 16;

/// MMA steps that a warpgroup starts as one batch. K blocks have a multiple of them.
pub const MMA_BATCH_STEPS: u32 = 3;

impl GemmTile {
    /// Returns the tile of `mma.sync` with these extents. All of its warps are along the pixels.
    pub(super) const fn new(filters: u32, pixels: u32) -> Self {
        Self {
            operands: filters / OPERAND_ROWS,
            pixel_octets: pixels / (WARPS * INSTRUCTION_PIXELS),
            filter_warps: 1,
            mainloop: Mainloop::Sm80CpAsync,
        }
    }

    /// Returns the tile with the same extents and all of its warps along the filters.
    pub(super) const fn with_warps_along_filters(self) -> Self {
        Self {
            operands: self.operands / WARPS,
            pixel_octets: self.pixel_octets * WARPS,
            filter_warps: WARPS,
            ..self
        }
    }

    /// Whether the mainloop is warp-specialized. Filters are in shared memory too then.
    #[must_use]
    pub const fn is_warp_specialized(self) -> bool {
        matches!(self.mainloop, Mainloop::Sm90WarpSpecialized)
    }

    /// Moments of a tile for each of its filters.
    #[must_use]
    pub const fn moments(self) -> u32 {
        if self.is_warp_specialized() {
            HALVES
        } else {
            1
        }
    }

    /// Filters of a tile.
    #[must_use]
    pub const fn filters(self) -> u32 {
        self.operands * OPERAND_ROWS * self.filter_warps
    }

    /// Warps along the pixels.
    #[must_use]
    pub const fn pixel_warps(self) -> u32 {
        WARPS / self.filter_warps
    }

    /// Pixels of a warp.
    #[must_use]
    pub const fn warp_pixels(self) -> u32 {
        self.pixel_octets * INSTRUCTION_PIXELS
    }

    /// Pixels of a tile.
    #[must_use]
    pub const fn pixels(self) -> u32 {
        self.warp_pixels() * self.pixel_warps()
    }

    /// Whether accumulators of split values are promoted. The largest tile has no registers left for that, so
    /// it is not used for long sums of split values.
    #[must_use]
    pub const fn promotes(self) -> bool {
        !self.mainloop.is_warpgroup_mma() && self.operands < 4
    }

    /// Whether the tile is accurate enough for sums of `mma_steps` steps of split values.
    pub(super) const fn allows_f16x2(self, mma_steps: u32) -> bool {
        self.mainloop.is_warpgroup_mma() || self.promotes() || mma_steps <= PROMOTION_MMA_STEPS
    }
}
