//! Tiles of warpgroup MMA (sm_90): a warpgroup multiplies pixels in shared memory.

use super::super::tile::GemmTile;

/// 64 filters by 128 pixels, by a warpgroup. Eight pixels that multiply at once are neighbours in the halo
/// tile, and it is equally far from each eight to the next, so a tile has one of two layouts:
///
/// | | pixels | where |
/// |---|---|---|
/// | *flat* | as many K-vectors of the halo tile in one piece as a block has pixels; those between the rows are not used | columns are no stride apart |
/// | *octets* | rows of eight pixels in one plane, each of which has its row of the halo tile | anywhere |
pub const W64N128: GemmTile = GemmTile {
    warpgroups: 1,
    ..GemmTile::new(1, 16, 4)
};

/// 64 filters by 256 pixels, in the layouts of [`W64N128`], with all operands in shared memory: two
/// warpgroups have such a tile each, of the same pixels, or half of the pixels of one (the head of this
/// module). Octets may lie side by side in it, and in several slices.
pub const WARP_SPECIALIZED: GemmTile = GemmTile {
    warpgroups: 2,
    ..GemmTile::new(1, 32, 4)
};

/// The tiles that a config is chosen from, besides those of [`sm80`](super::super::sm80).
pub(in super::super) const TILES: [GemmTile; 2] = [W64N128, WARP_SPECIALIZED];

/// Cycles of an output for each MMA step, in ten-thousandths, on an H200.
pub(in super::super) const fn step_cost(tile: GemmTile) -> u64 {
    if tile.is_warp_specialized() { 45 } else { 95 }
}
