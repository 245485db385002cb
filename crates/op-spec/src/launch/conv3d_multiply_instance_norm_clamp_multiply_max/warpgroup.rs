//! The kernel of Hopper's warpgroup products, for tensors of 16-bit elements.
//!
//! A warpgroup takes [`TILE_ROWS`] rows of the output, all of their columns; the problem of
//! KernelBench gives each of the block's warpgroups one such tile.

use super::{
    FusedGeometry, OUT_CHANNELS, OUT_WIDTH, PAIR_PLANES, PLANE_WORDS, ROW_PITCH,
    TILE_ROWS as WARP_ROWS, WIDTH,
};
use crate::launch::{LaunchShape, WARP_THREADS};

/// Warps of a warpgroup.
pub const GROUP_WARPS: u32 = 4;

/// Warpgroups of a block.
pub const GROUPS: u32 = 5;

/// Warps of a block.
pub const WARPS: u32 = GROUPS * GROUP_WARPS;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = WARPS * WARP_THREADS;

/// Output rows of a tile.
pub const TILE_ROWS: u32 = GROUP_WARPS * WARP_ROWS;

/// Elements that a thread moves at a time.
pub const UNIT_ELEMENTS: u32 = 8;

/// Units of a row.
pub const ROW_UNITS: u32 = WIDTH / UNIT_ELEMENTS;

/// Units that a thread moves.
pub const OWN_UNITS: u32 = 4;

// A sample that fits a plane has no more.
const _: () = assert!(PLANE_WORDS / ROW_PITCH * ROW_UNITS <= OWN_UNITS * BLOCK_THREADS);

/// Output columns of a product.
pub const PRODUCT_COLUMNS: u32 = 2;

/// Columns of the filter operand: each output column's filters.
pub const OPERAND_COLUMNS: u32 = PRODUCT_COLUMNS * OUT_CHANNELS;

/// Words of a block of the filter operand: its columns, 8 halves of K.
pub const BLOCK_WORDS: u32 = OPERAND_COLUMNS * 4;

/// Blocks that differ: 6 for each of two pairs of input columns, and one for the rest of each.
pub const DISTINCT_BLOCKS: u32 = 14;

/// Blocks: the first rest stands behind the second one again, so that the two can be read in either order.
pub const BLOCKS: u32 = DISTINCT_BLOCKS + 1;

/// Words from a plane to the next. Each ends with a row of zeros.
pub const PLANE_PITCH: u32 = PLANE_WORDS + WIDTH;

/// First word of a plane's zeros.
pub const ZEROS: u32 = PLANE_WORDS;

/// First word of the filters.
pub const FILTERS: u32 = PAIR_PLANES * PLANE_PITCH;

/// First word of the constants that meet the start values, one for each input column.
pub const ONES: u32 = FILTERS + BLOCKS * BLOCK_WORDS;

/// First word of what all threads share.
pub const COMMON: u32 = ONES + WIDTH;

/// Words of it.
pub const COMMON_WORDS: u32 = 256;

/// First word of the partial statistics: 32 for each warp.
pub const PARTIAL: u32 = COMMON + COMMON_WORDS;

/// First word of the results that wait to be written.
pub const RESULTS: u32 = PARTIAL + 32 * WARPS;

/// Pairs of columns of the output.
pub const PAIRS: u32 = OUT_WIDTH / PRODUCT_COLUMNS;

/// Parts into which the columns of a tile are cut, so that the warpgroups have about as much to do each.
pub const PARTS: u32 = 2;

/// Pairs of columns of the first part; the last one may have less.
pub const PART_PAIRS: u32 = PAIRS.div_ceil(PARTS);

/// Words from a row of results to the next. Odd, so that eight rows lie in eight banks.
pub const RESULT_PITCH: u32 = PART_PAIRS + 1;

/// Words of results of a warp.
pub const RESULT_WORDS: u32 = WARP_ROWS * RESULT_PITCH;

/// Words of shared memory.
pub const SHARED_WORDS: u32 = RESULTS + RESULT_WORDS * WARPS;

/// Launch of the kernel, or nothing when there are more samples than a grid has blocks.
#[must_use]
pub const fn shape(g: &FusedGeometry) -> Option<LaunchShape> {
    match LaunchShape::linear(g.n, BLOCK_THREADS) {
        Some(shape) => Some(shape.with_shared(4 * SHARED_WORDS)),
        None => None,
    }
}
