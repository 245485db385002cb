//! A block of warp-specialized tiles: its warps, and the limits of its shared memory.

use super::super::{K_VECTOR_BYTES, MMA_STEP_K_VECTORS};
use super::tiles::WARP_SPECIALIZED;
use crate::WARP_THREADS;

pub use super::super::tile::HALVES;

/// Pixels of half a tile.
pub const HALF_PIXELS: u32 = WARP_SPECIALIZED.pixels() / HALVES;

/// Consumer warps.
pub const WARPS: u32 = 8;

/// Consumer warpgroups.
pub const WARPGROUPS: u32 = 2;

/// Producer warps that load halo tiles. One more producer warp loads filters.
pub const HALO_WARPS: u32 = 3;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = (WARPS + 1 + HALO_WARPS) * WARP_THREADS;

/// Filters of a warp.
pub const WARP_FILTERS: u32 = 16;

/// Bytes of a row of results in shared memory: one filter, 64 pixels in f32 or 128 in 16 bits.
pub const WRITTEN_BYTES: u32 = 256;

/// Values of padding behind a row of results. With it the rows that a warp stores to at the same time, two
/// values for each of four lanes, touch each bank once: eight rows in 16 bits, four in f32.
pub const WRITTEN_PADDING: u32 = 8;

/// Words of a warp's rows of results, which 16-bit results do not fill.
pub const WRITTEN_WORDS: u32 = WARP_FILTERS * (WRITTEN_BYTES / 4 + WRITTEN_PADDING);

/// Bytes of a tile's filters for one MMA step and part.
pub const MMA_STEP_BYTES: u32 = WARP_SPECIALIZED.filters() * MMA_STEP_K_VECTORS * K_VECTOR_BYTES;

/// Alignment of filters in shared memory: the period of their swizzle.
pub(super) const FILTER_SWIZZLE_BYTES: u32 = 256;

/// Alignment of copy targets in shared memory. Boxes require it, and a bulk copy with less reads a quarter
/// more sectors.
pub const TARGET_BYTES: u32 = 128;

/// Accumulators of a lane for each tile of its block: eight warps share one tile, or four warps have one of
/// two.
pub(super) const TILE_SUMS: u32 =
    WARP_SPECIALIZED.filters() * WARP_SPECIALIZED.pixels() / (WARPS * WARP_THREADS);

/// The fewest filter stages beside long spans of an NHWC halo tile: with fewer, consumers wait for filters.
pub(in super::super) const MIN_FILTER_STAGES: u32 = 4;

/// Tiles of pixels whose coordinates shared memory holds, a power of two. Halo producers are at most
/// `MAX_HALO_STAGES` tiles ahead of the consumers. The coordinates of a tile are overwritten when the stages
/// of the tile before are empty, which the same warpgroup has released after it read them.
pub const TILE_COORDS: u32 = 8;

/// Words of a tile's coordinates: sample, slice, row, column, and the tile's index in its sample.
pub const TILE_COORD_WORDS: u32 = 8;

/// Words of the coordinates of all these tiles, and of the work of the block.
pub const TILE_COORD_ALL_WORDS: u32 = (TILE_COORDS + 1) * TILE_COORD_WORDS;

/// Staging buffers of a producer warp: one that it converts, and others in flight. There are more of them
/// where halo tiles are so large that there are only two halo stages, if enough filter stages are left.
pub(in super::super) const STAGED_TILES_PER_WARP: u32 = 2;
pub(in super::super) const MORE_STAGED_TILES_PER_WARP: u32 = 3;

/// Words of the table of sources for each staged tile of a K block.
pub const STAGED_TILE_WORDS: u32 = 8;

/// The same for each K-vector of a staged tile of dense f32.
pub const STAGED_K_VECTOR_WORDS: u32 = 2;
