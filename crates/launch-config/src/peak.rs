//! Peak kernels, each of which keeps one unit of a device busy. Their speed is the ceiling for other kernels
//! in benchmarks.
//!
//! Their results have a closed form in small integers, exact in f32, so a check finds a launch that skipped
//! work.

use super::{LaunchShape, VECTOR_ELEMENTS, WARP_THREADS};

/// Threads of a block, in all these kernels.
pub const BLOCK_THREADS: u32 = 256;

/// Independent chains of dependent instructions that a thread (of the FMA kernel) or a warp (of the
/// tensor-core kernels) has in flight.
pub const CHAINS: usize = 8;

/// Blocks of the FMA kernel that a multiprocessor holds: eight warps for each of its four schedulers.
pub const FMA_BLOCKS_PER_PROCESSOR: u32 = 4;

/// Instructions that one iteration of the FMA kernel adds to each chain.
pub const FMA_UNROLL: u32 = 32;

/// Blocks of a tensor-core kernel that a multiprocessor holds: four warps for each of its four tensor cores.
pub const MMA_BLOCKS_PER_PROCESSOR: u32 = 2;

/// Instructions that one iteration of a tensor-core kernel adds to each chain.
pub const MMA_UNROLL: u32 = 4;

/// M and N of the tensor-core instruction.
pub const MMA_TILE: [usize; 2] = [16, 8];

/// Accumulators of a lane.
pub const MMA_LANE_ELEMENTS: usize = MMA_TILE[0] * MMA_TILE[1] / WARP_THREADS as usize;

/// Blocks of the warpgroup kernel that a multiprocessor holds. A block has two warpgroups: one can wait for
/// its MMAs while the other's run.
pub const WGMMA_BLOCKS_PER_PROCESSOR: u32 = 1;

/// Instructions that one iteration of the warpgroup kernel adds to its chain.
pub const WGMMA_UNROLL: u32 = 8;

/// M and N of the largest warpgroup instruction.
pub const WGMMA_TILE: [usize; 2] = [64, 256];

/// Groups of eight columns of N, whose accumulators the warpgroup kernel adds up. Each counts as a chain.
pub const WGMMA_CHAINS: usize = WGMMA_TILE[1] / MMA_TILE[1];

/// Vectors that a thread of the copy has in flight.
pub const COPY_VECTORS_PER_THREAD: usize = 4;

/// Elements that a block of the copy moves in a round, a vector to each of its threads.
pub const COPY_ROUND_ELEMENTS: usize = BLOCK_THREADS as usize * VECTOR_ELEMENTS;

/// Elements that one block of the copy owns.
pub const COPY_BLOCK_ELEMENTS: usize = COPY_ROUND_ELEMENTS * COPY_VECTORS_PER_THREAD;

/// Launch of the copy. It moves whole blocks: `elements` is a multiple of [`COPY_BLOCK_ELEMENTS`].
pub const fn copy_shape(elements: u64) -> Option<LaunchShape> {
    LaunchShape::linear(elements / COPY_BLOCK_ELEMENTS as u64, BLOCK_THREADS)
}

/// Launch of the FMA kernel: one full wave.
pub const fn fma_shape(processors: u32) -> Option<LaunchShape> {
    let blocks = processors as u64 * FMA_BLOCKS_PER_PROCESSOR as u64;
    LaunchShape::linear(blocks, BLOCK_THREADS)
}

/// Launch of a tensor-core kernel: one full wave.
pub const fn mma_shape(processors: u32) -> Option<LaunchShape> {
    let blocks = processors as u64 * MMA_BLOCKS_PER_PROCESSOR as u64;
    LaunchShape::linear(blocks, BLOCK_THREADS)
}

/// Launch of the warpgroup kernel: one full wave.
pub const fn wgmma_shape(processors: u32) -> Option<LaunchShape> {
    let blocks = processors as u64 * WGMMA_BLOCKS_PER_PROCESSOR as u64;
    LaunchShape::linear(blocks, BLOCK_THREADS)
}

/// Outputs of the FMA kernel: one for each thread.
pub const fn fma_outputs(shape: &LaunchShape) -> u64 {
    shape.grid[0] as u64 * BLOCK_THREADS as u64
}

/// Outputs of a tensor-core kernel: a tile for each warp. In the warpgroup kernel that tile is the sum of its
/// chains.
pub const fn mma_outputs(shape: &LaunchShape) -> u64 {
    let warps = shape.grid[0] as u64 * (BLOCK_THREADS / WARP_THREADS) as u64;
    warps * (MMA_TILE[0] * MMA_TILE[1]) as u64
}

/// Every element in row `row` of the left operand.
pub const fn mma_row_value(row: u32) -> f32 {
    (1 + row % 4) as f32
}

/// Every element in column `column` of the right operand.
pub const fn mma_column_value(column: u32) -> f32 {
    (1 + column % 2) as f32
}

/// Start value of chain `chain` in the FMA kernel and the `mma` kernels. Chains differ, so that the compiler
/// cannot merge them.
pub const fn chain_start(chain: usize) -> f32 {
    chain as f32
}
