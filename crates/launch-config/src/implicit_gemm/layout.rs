//! Where what a block of the product has lies in its shared memory.

use super::{GemmGeometry, GemmTile, K_VECTOR_BYTES};
use crate::norm::COUNTED_ELEMENTS;

/// Floats between the rows of a tile in shared memory, beyond its pixels: eight banks, so that four
/// rows of two floats for each of four lanes touch all banks once.
pub const TILE_PADDING: u32 = 8;

/// Bytes of shared memory at which its parts start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// For each K-vector of a filter in a K block, or for each step, how far its K-vector of the halo tile is
    /// from a pixel's.
    pub offsets: u32,
    /// For each pixel, its first K-vector of the halo tile.
    pub bases: u32,
    /// For each pixel, its place in the tile, in one word; [`OUTSIDE`] for one that is not used.
    pub pixels: u32,
    /// For each pixel, its place in the output plane, from the tile's first.
    pub positions: u32,
    /// For each K-vector of a halo tile, its K-vector of the reformatted input, from the halo tile's first.
    pub sources: u32,
    /// For each pooling window, its place in the tile, in one word.
    pub windows: u32,
    /// What the tile is that is multiplied, and the next one.
    pub tiles: u32,
    /// Four numbers for each filter.
    pub channels: u32,
    /// For each filter and warp, the moments of its pixels.
    pub moments: u32,
    /// The results, a row for each filter.
    pub results: u32,
    /// The halo tiles of two K blocks.
    pub halos: u32,
    /// The end.
    pub end: u32,
}

/// Words that say what a tile is.
pub const TILE_WORDS: u32 = 8;

/// Bits of each coordinate of a pixel or window in the tables, the highest of which a pixel leaves 0.
pub const PLACE_BITS: u32 = 10;

/// The coordinates of a pixel that is not used, larger than any in a tile.
pub const OUTSIDE: u32 = 511 | 511 << PLACE_BITS | 511 << (2 * PLACE_BITS);

impl GemmGeometry {
    /// Where the parts of a block's shared memory lie, in bytes.
    #[must_use]
    pub const fn layout(&self, tile: GemmTile, parts: u32) -> Layout {
        let counted = 4 * COUNTED_ELEMENTS as u32;
        let bases = 4 * self.offsets;
        let pixels = bases + 4 * tile.pixels();
        let positions = pixels.next_multiple_of(8) + 4 * tile.pixels();
        let sources = positions + 4 * tile.pixels();
        let windows = sources + 4 * self.halo_k_vectors;
        let tiles = (windows + 4 * self.windows()).next_multiple_of(K_VECTOR_BYTES);
        let channels = tiles + 2 * TILE_WORDS * 4;
        let moments = channels + tile.filters() * K_VECTOR_BYTES;
        let results = moments + tile.filters() * tile.pixel_warps() * counted;
        let halos = results + tile.filters() * (tile.pixels() + TILE_PADDING) * 4;
        Layout {
            offsets: 0,
            bases,
            pixels: pixels.next_multiple_of(8),
            positions,
            sources,
            windows,
            tiles,
            channels,
            moments,
            results,
            halos,
            end: halos + 2 * self.k_block_bytes(parts),
        }
    }

    /// Bytes of one K block of the halo tile.
    #[must_use]
    pub const fn k_block_bytes(&self, parts: u32) -> u32 {
        self.k_block_planes * parts * self.halo_k_vectors * K_VECTOR_BYTES
    }
}
