//! Tiles of warpgroup MMA (sm_90): a warpgroup multiplies pixels in shared memory.

use super::super::sm80::{self, M16N64, M16N256, M32N128, M64N32, M64N128};
use super::super::tile::{GemmTile, Mainloop};
use crate::TensorRates;
use crate::arch::Costs;

/// 64 filters by 128 pixels, by a warpgroup. The eight pixels of an octet are consecutive in the halo tile,
/// and octets are at equal distances, so a tile has one of two layouts:
///
/// - *flat*, for a column stride of 1: consecutive K-vectors of the halo tile, one for each pixel of the
///   block. Pixels between rows are unused.
/// - *octets*, for any convolution: rows of eight pixels, each with its own row of the halo tile.
pub const W64N128: GemmTile = GemmTile {
    mainloop: Mainloop::Sm90CpAsync,
    ..GemmTile::new(64, 128).with_warps_along_filters()
};

/// 64 filters by 256 pixels, in the layouts of [`W64N128`], with both operands in shared memory. Each of two
/// warpgroups has a tile of the same pixels, or half of the pixels of one tile (see the head of `sm90`).
/// Octets may be in several strips and slices.
pub const WARP_SPECIALIZED: GemmTile = GemmTile {
    mainloop: Mainloop::Sm90WarpSpecialized,
    ..GemmTile::new(64, 256).with_warps_along_filters()
};

/// Hopper's tiles: those of [`sm80`](super::super::sm80), and its own.
pub const TILES: [GemmTile; 7] = [
    M64N128,
    M32N128,
    M16N256,
    M64N32,
    M16N64,
    W64N128,
    WARP_SPECIALIZED,
];

/// Constants of the cost model, measured on an H200.
pub(crate) const COSTS: Costs = sm80::COSTS;

/// The rates of an H100 and an H200.
pub(crate) const RATES: TensorRates = TensorRates::of_f16(2048);

/// Blocks that a multiprocessor should hold for values of `parts` parts: as many as registers allow.
pub(in super::super) const fn blocks_per_processor(tile: GemmTile, parts: u32) -> u32 {
    match (tile.is_warp_specialized(), parts) {
        (true, _) => 1,
        (false, 1) => 3,
        (false, _) => 2,
    }
}

/// Returns the cost of an MMA step for each output, in ten-thousandths of a cycle, on an H200.
pub(in super::super) const fn step_cost(tile: GemmTile) -> u64 {
    if tile.is_warp_specialized() { 45 } else { 95 }
}
