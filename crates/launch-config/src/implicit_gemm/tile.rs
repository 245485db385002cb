//! Tiles of the product.

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
    /// Operands of 16 filters that a warp multiplies.
    pub operands: u32,
    /// *Octets*, eight pixels each, that a warp multiplies them with.
    pub pixel_octets: u32,
    /// Warps side by side along the filters; the others are so along the pixels.
    pub filter_warps: u32,
    /// Warpgroups that multiply; 0 if each warp does so by itself. Two of them have the filters in shared
    /// memory as well.
    pub warpgroups: u32,
}

/// Steps that tensor cores add to one sum of split values before it is promoted; see `kernels_gpu`'s
/// `implicit_gemm::warps`.
pub const PROMOTION_MMA_STEPS: u32 = 16;

/// Steps of the product that a warpgroup starts at once; K blocks have a multiple of them.
pub const MMA_BATCH_STEPS: u32 = 3;

impl GemmTile {
    pub(super) const fn new(operands: u32, pixel_octets: u32, filter_warps: u32) -> Self {
        Self {
            operands,
            pixel_octets,
            filter_warps,
            warpgroups: 0,
        }
    }

    /// Whether the filters, too, come to shared memory.
    #[must_use]
    pub const fn is_warp_specialized(self) -> bool {
        self.warpgroups == 2
    }

    /// Moments that a tile leaves of each of its filters.
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

    /// Warps side by side along the pixels.
    #[must_use]
    pub const fn pixel_warps(self) -> u32 {
        WARPS / self.filter_warps
    }

    /// Pixels of a warp.
    #[must_use]
    pub const fn warp_pixels(self) -> u32 {
        self.pixel_octets * INSTRUCTION_PIXELS
    }

    /// Blocks that a multiprocessor should hold where values have `parts` parts: as many as their threads'
    /// registers allow.
    #[must_use]
    pub const fn blocks_per_processor(self, parts: u32) -> u32 {
        match (self.warpgroups, self.operands, self.pixel_octets) {
            (2, ..) => 1,
            (1, ..) => {
                if parts == 1 {
                    3
                } else {
                    2
                }
            }
            (_, 4, _) => 3,
            (_, 1, 8) if parts == 2 => 3,
            _ => 4,
        }
    }

    /// Pixels of a tile.
    #[must_use]
    pub const fn pixels(self) -> u32 {
        self.warp_pixels() * self.pixel_warps()
    }

    /// Whether long sums of split values are promoted now and then. The largest tile has no registers left
    /// for that; it makes no long sums of split values, therefore.
    #[must_use]
    pub const fn promotes(self) -> bool {
        self.warpgroups == 0 && self.operands < 4
    }

    /// Whether the tile adds up `mma_steps` steps of split values well.
    pub(super) const fn allows_f16x2(self, mma_steps: u32) -> bool {
        self.warpgroups != 0 || self.promotes() || mma_steps <= PROMOTION_MMA_STEPS
    }
}
