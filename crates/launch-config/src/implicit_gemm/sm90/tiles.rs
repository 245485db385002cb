//! Tiles of warpgroup MMA (sm_90): a warpgroup multiplies pixels in shared memory.

use super::super::tile::{GemmTile, Mainloop};

/// 64 filters by 128 pixels, by a warpgroup. The eight pixels of an octet are consecutive in the halo tile,
/// and octets are at equal distances, so a tile has one of two layouts:
///
/// | | pixels | used for |
/// |---|---|---|
/// | *flat* | consecutive K-vectors of the halo tile, one for each pixel of the block; those between rows are unused | a column stride of 1 |
/// | *octets* | rows of eight pixels, each with its own row of the halo tile | any convolution |
pub const W64N128: GemmTile = GemmTile {
    mainloop: Mainloop::Sm90CpAsync,
    ..GemmTile::new(1, 16, 4)
};

/// 64 filters by 256 pixels, in the layouts of [`W64N128`], with both operands in shared memory. Two
/// warpgroups have such a tile each, of the same pixels, or half of the pixels of one (the head of `sm90`).
/// Octets may be in several strips and slices.
pub const WARP_SPECIALIZED: GemmTile = GemmTile {
    mainloop: Mainloop::Sm90WarpSpecialized,
    ..GemmTile::new(1, 32, 4)
};

/// The tiles that Hopper has beside those of [`sm80`](super::super::sm80).
pub(in super::super) const TILES: [GemmTile; 2] = [W64N128, WARP_SPECIALIZED];

/// Cycles of an output for each MMA step, in ten-thousandths, on an H200.
pub(in super::super) const fn step_cost(tile: GemmTile) -> u64 {
    if tile.is_warp_specialized() { 45 } else { 95 }
}
