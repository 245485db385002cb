//! A block of warp-specialized tiles: its warps, and the limits of its shared memory.

use super::super::{K_VECTOR_BYTES, MMA_STEP_K_VECTORS};
use super::tiles::WARP_SPECIALIZED;
use crate::WARP_THREADS;

pub use super::super::tile::HALVES;

/// Pixels of one of them.
pub const HALF_PIXELS: u32 = WARP_SPECIALIZED.pixels() / HALVES;

/// Warps that multiply.
pub const WARPS: u32 = 8;

/// The warpgroups that they are.
pub const WARPGROUPS: u32 = 2;

/// Warps that load halo tiles, beside one that loads filters.
pub const HALO_WARPS: u32 = 3;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = (WARPS + 1 + HALO_WARPS) * WARP_THREADS;

/// Filters of a warp.
pub const WARP_FILTERS: u32 = 16;

/// Bytes of a filter's results that a warp has in shared memory at a time: of 64 pixels in f32, of 128 in 16
/// bits.
pub const WRITTEN_BYTES: u32 = 256;

/// Values between one filter's results there and the next one's, so that rows of two values for each of four
/// lanes touch all banks once: two for each word of rows of 16 bits, of which eight are stored at a time, and
/// one for each of f32, of which four are.
pub const WRITTEN_PADDING: u32 = 8;

/// Words of a warp's results there, which 16-bit ones do not fill.
pub const WRITTEN_WORDS: u32 = WARP_FILTERS * (WRITTEN_BYTES / 4 + WRITTEN_PADDING);

/// Bytes of the filters of one step of a tile, of each part.
pub const MMA_STEP_BYTES: u32 = WARP_SPECIALIZED.filters() * MMA_STEP_K_VECTORS * K_VECTOR_BYTES;

/// What copies start on in shared memory: boxes have to, and a bulk copy that does not reads a quarter more
/// sectors.
pub const TARGET_BYTES: u32 = 128;

/// Sums of a lane for each tile of its block: a tile's for the eight warps, or two tiles', of which four have
/// one.
pub(super) const TILE_SUMS: u32 =
    WARP_SPECIALIZED.filters() * WARP_SPECIALIZED.pixels() / (WARPS * WARP_THREADS);

/// Filter pipeline stages that long lines must leave room for: with fewer, what multiplies waits for filters.
pub(in super::super) const MIN_FILTER_STAGES: u32 = 4;

/// Pieces that a warp has staged at a time: one that it rounds, and others on their way. More of them where
/// halo tiles are large, so that there are pipeline stages for two, if that leaves filters enough.
pub(in super::super) const STAGED_TILES_PER_WARP: u32 = 2;
pub(in super::super) const MORE_STAGED_TILES_PER_WARP: u32 = 3;

/// Words that a block notes of each piece of a K block.
pub const STAGED_TILE_WORDS: u32 = 8;
