//! The kernel with warpgroup MMAs (`wgmma`), for tensors of 16-bit elements.
//!
//! An item is [`TILE_ROWS`] rows of the output by a *strip* of its columns. A warpgroup has consecutive
//! items: KernelBench's problem has 14 of them for the five warpgroups of a block.
//!
//! For small batches, a cluster of blocks shares a sample ([`blocks`]).

use super::{
    OUT_CHANNELS, OUT_WIDTH, OneLaunch3dGeometry, PAIR_PLANES, PLANE_WORDS, ROW_PITCH, Share,
    TILE_ROWS as WARP_ROWS, WIDTH,
};
use crate::clusters::at_once;
use crate::{LaunchShape, WARP_THREADS};

/// Warps of a warpgroup.
pub const WARPGROUP_WARPS: u32 = 4;

/// Warpgroups of a block.
pub const WARPGROUPS: u32 = 5;

/// Warps of a block.
pub const WARPS: u32 = WARPGROUPS * WARPGROUP_WARPS;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = WARPS * WARP_THREADS;

/// Output rows of a tile.
pub const TILE_ROWS: u32 = WARPGROUP_WARPS * WARP_ROWS;

/// Elements of a channel that a thread loads at a time.
pub const LOAD_ELEMENTS: u32 = 8;

/// Loads of a row.
pub const ROW_LOADS: u32 = WIDTH / LOAD_ELEMENTS;

/// Loads of a thread.
pub const OWN_LOADS: u32 = 4;

// A sample that fits a plane has no more loads.
const _: () = assert!(PLANE_WORDS / ROW_PITCH * ROW_LOADS <= OWN_LOADS * BLOCK_THREADS);

/// Output columns of an MMA.
pub const PRODUCT_COLUMNS: u32 = 2;

/// Columns of the filter operand: each output column's filters.
pub const OPERAND_COLUMNS: u32 = PRODUCT_COLUMNS * OUT_CHANNELS;

/// Words of a block of the filter operand: its columns by 8 values of K.
pub const BLOCK_WORDS: u32 = OPERAND_COLUMNS * 4;

/// Distinct blocks: 6 for each of two pairs of input columns, and one for the remaining taps of each.
pub const DISTINCT_BLOCKS: u32 = 14;

/// Blocks: the first block of remaining taps is repeated behind the second, so that the two can be read in
/// either order.
pub const BLOCKS: u32 = DISTINCT_BLOCKS + 1;

/// Words from one plane to the next. Each plane ends with a row of zeros.
pub const PLANE_PITCH: u32 = PLANE_WORDS + WIDTH;

/// First word of a plane's zeros.
pub const ZEROS: u32 = PLANE_WORDS;

/// First word of the filters.
pub const FILTERS: u32 = PAIR_PLANES * PLANE_PITCH;

/// First word of the constants that the start values are multiplied by, one for each input column.
pub const ONES: u32 = FILTERS + BLOCKS * BLOCK_WORDS;

/// First word of the common area.
pub const COMMON: u32 = ONES + WIDTH;

/// Words of the common area.
pub const COMMON_WORDS: u32 = 256;

/// First word of the partial statistics: 32 for each warp.
pub const PARTIAL: u32 = COMMON + COMMON_WORDS;

/// First word of the results before they are written.
pub const RESULTS: u32 = PARTIAL + 32 * WARPS;

/// Pairs of columns of the output.
pub const PAIRS: u32 = OUT_WIDTH / PRODUCT_COLUMNS;

/// *Strips* of output columns, which give the warpgroups about equal work: an item is a strip of
/// [`TILE_ROWS`] rows.
pub const STRIPS: u32 = 2;

/// Pairs of columns of the first strip; the last strip may have fewer.
pub const STRIP_PAIRS: u32 = PAIRS.div_ceil(STRIPS);

/// Words from one row of results to the next. Odd, so that eight rows lie in eight banks.
pub const RESULT_PITCH: u32 = STRIP_PAIRS + 1;

/// Words of results of a warp.
pub const RESULT_WORDS: u32 = WARP_ROWS * RESULT_PITCH;

/// Words of shared memory of a block that does not share its sample.
pub const SHARED_WORDS: u32 = RESULTS + RESULT_WORDS * WARPS;

/// Blocks of the clusters that share a sample: one for each warpgroup of a block that has a sample to itself.
pub const CLUSTER_BLOCKS: u32 = WARPGROUPS;

/// The most items of a warpgroup in a block that has a sample to itself. In a cluster, each item has a
/// warpgroup.
pub const MOST_WARPGROUP_ITEMS: u32 =
    ((PLANE_WORDS / ROW_PITCH).div_ceil(TILE_ROWS) * STRIPS).div_ceil(WARPGROUPS);
const _: () = assert!(MOST_WARPGROUP_ITEMS <= WARPGROUPS);

/// Power sums of a lane: sums and sums of squares.
pub const LANE_POWER_SUMS: u32 = 8;

/// First word of the power sums of a block's items, which only blocks of a cluster have.
pub const POWER_SUMS: u32 = SHARED_WORDS;

/// Words of shared memory of a block of a cluster.
pub const CLUSTER_SHARED_WORDS: u32 =
    POWER_SUMS + MOST_WARPGROUP_ITEMS * WARPGROUP_WARPS * LANE_POWER_SUMS * WARP_THREADS;
const _: () = assert!(4 * CLUSTER_SHARED_WORDS <= 227 * 1024);

/// Items of a sample.
const fn items(g: &OneLaunch3dGeometry) -> u32 {
    g.out_rows.div_ceil(TILE_ROWS) * STRIPS
}

/// Returns the share of a sample (consecutive items) of warpgroup `warpgroup` of a block that has the sample
/// to itself, or of block `warpgroup` of a cluster.
#[must_use]
pub const fn share(g: &OneLaunch3dGeometry, warpgroup: u32) -> Share {
    let items = items(g);
    let each = items.div_ceil(WARPGROUPS);
    let first = if warpgroup * each < items {
        warpgroup * each
    } else {
        items
    };
    let end = if first + each < items {
        first + each
    } else {
        items
    };
    Share::new(g, [first, end], STRIPS, TILE_ROWS)
}

/// The most rounds of clusters that take less time than one round of blocks with a sample each.
const ROUNDS: u64 = 2;

/// Blocks that share a sample on a device with `multiprocessors` multiprocessors: a cluster's, or 1 for large
/// batches and for samples with no more items than a block has warpgroups.
#[must_use]
pub const fn blocks(g: &OneLaunch3dGeometry, multiprocessors: u32) -> u32 {
    if items(g) > WARPGROUPS && g.n <= ROUNDS * at_once(CLUSTER_BLOCKS, multiprocessors) {
        CLUSTER_BLOCKS
    } else {
        1
    }
}

/// Launch of the kernel with `blocks` blocks for each sample; `None` if they exceed a grid.
#[must_use]
pub const fn shape(g: &OneLaunch3dGeometry, blocks: u32) -> Option<LaunchShape> {
    let words = if blocks == 1 {
        SHARED_WORDS
    } else {
        CLUSTER_SHARED_WORDS
    };
    match LaunchShape::linear(g.n.saturating_mul(blocks as u64), BLOCK_THREADS) {
        Some(shape) => Some(shape.with_shared(4 * words)),
        None => None,
    }
}
