//! The map of shared memory of a block of the implicit GEMM.

use super::{GemmTile, ImplicitGemmGeometry, K_VECTOR_BYTES, sm80};
use crate::norm::COUNTED_ELEMENTS;

/// Floats of padding behind each row of results in shared memory: eight banks, so that four rows of two
/// floats for each of four lanes touch each bank once.
pub const TILE_PADDING: u32 = 8;

/// Byte offsets of the parts of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// For each K-vector of a filter in a K block, or for each MMA step, the distance of the matching
    /// K-vector of the halo tile from the base of a pixel.
    pub offsets: u32,
    /// For each pixel, its base: its first K-vector of the halo tile.
    pub bases: u32,
    /// For each pixel, its packed coordinates in the tile; [`OUTSIDE`] for an unused one.
    pub pixels: u32,
    /// For each pixel, its offset in the output plane from the tile's first pixel.
    pub positions: u32,
    /// For each K-vector of a halo tile, the offset of its source in the reformatted input, relative to the
    /// first K-vector's source.
    pub sources: u32,
    /// For each pooling window, its packed coordinates in the tile.
    pub windows: u32,
    /// Coordinates of the present tile and of the next one.
    pub tiles: u32,
    /// Four parameters of each filter.
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

/// Words of a tile's coordinates.
pub const TILE_WORDS: u32 = 8;

/// Bits of each packed coordinate of a pixel or window. The highest bit of a pixel's coordinate is 0.
pub const PLACE_BITS: u32 = 10;

/// The packed coordinates of an unused pixel, larger than any in a tile.
pub const OUTSIDE: u32 = 511 | 511 << PLACE_BITS | 511 << (2 * PLACE_BITS);

impl ImplicitGemmGeometry {
    /// The map of a block's shared memory, in bytes.
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
            end: halos + sm80::STAGES * self.k_block_bytes(parts),
        }
    }

    /// Bytes of one K block of the halo tile.
    #[must_use]
    pub const fn k_block_bytes(&self, parts: u32) -> u32 {
        self.k_block_planes * parts * self.halo_k_vectors * K_VECTOR_BYTES
    }
}
