//! Peak kernels: each of them keeps one unit of a device busy. Their speed is the ceiling for other kernels
//! in benchmarks.
//!
//! Their results have a closed form in small integers, exact in f32. A check therefore finds a launch that
//! skipped work.

use super::{LaunchShape, VECTOR_ELEMENTS, WARP_THREADS};

/// Threads of a block of each peak kernel.
pub const BLOCK_THREADS: u32 = 256;

/// Independent chains of dependent instructions that a thread (of the FMA kernel) or a warp (of the
/// tensor-core kernels) has in flight.
pub const CHAINS: usize = 8;

/// Resident blocks of the FMA kernel per multiprocessor: eight warps for each of its four schedulers.
pub const FMA_BLOCKS_PER_PROCESSOR: u32 = 4;

/// Instructions that one iteration of the FMA kernel adds to each chain.
pub const FMA_UNROLL: u32 = 32;

/// Resident blocks of a tensor-core kernel per multiprocessor: four warps for each of its four tensor cores.
pub const MMA_BLOCKS_PER_PROCESSOR: u32 = 2;

/// Instructions that one iteration of a tensor-core kernel adds to each chain.
pub const MMA_UNROLL: u32 = 4;

/// M and N of the tensor-core instruction.
pub const MMA_TILE: [usize; 2] = [16, 8];

/// Accumulators of a lane.
pub const MMA_LANE_ELEMENTS: usize = MMA_TILE[0] * MMA_TILE[1] / WARP_THREADS as usize;

/// Resident blocks of the warpgroup kernel per multiprocessor. A block has two warpgroups: one can wait for
/// its MMAs while those of the other run.
pub const WGMMA_BLOCKS_PER_PROCESSOR: u32 = 1;

/// Instructions that one iteration of the warpgroup kernel adds to its chain.
pub const WGMMA_UNROLL: u32 = 8;

/// M and N of the largest warpgroup instruction.
pub const WGMMA_TILE: [usize; 2] = [64, 256];

/// Groups of eight columns of N, whose accumulators the warpgroup kernel sums. Each group counts as a chain.
pub const WGMMA_CHAINS: usize = WGMMA_TILE[1] / MMA_TILE[1];

/// Vectors that a thread of the copy kernel has in flight.
pub const COPY_VECTORS_PER_THREAD: usize = 4;

/// Elements that a block of the copy kernel moves in one round: one vector per thread.
pub const COPY_ROUND_ELEMENTS: usize = BLOCK_THREADS as usize * VECTOR_ELEMENTS;

/// Elements that a block of the copy kernel moves in total.
pub const COPY_BLOCK_ELEMENTS: usize = COPY_ROUND_ELEMENTS * COPY_VECTORS_PER_THREAD;

/// The copy kernel's launch. It moves whole blocks: `elements` is a multiple of [`COPY_BLOCK_ELEMENTS`].
pub const fn copy_shape(elements: u64) -> Option<LaunchShape> {
    LaunchShape::linear(elements / COPY_BLOCK_ELEMENTS as u64, BLOCK_THREADS)
}

/// The FMA kernel's launch: one full wave.
pub const fn fma_shape(processors: u32) -> Option<LaunchShape> {
    let blocks = processors as u64 * FMA_BLOCKS_PER_PROCESSOR as u64;
    LaunchShape::linear(blocks, BLOCK_THREADS)
}

/// The launch of a tensor-core kernel: one full wave.
pub const fn mma_shape(processors: u32) -> Option<LaunchShape> {
    let blocks = processors as u64 * MMA_BLOCKS_PER_PROCESSOR as u64;
    LaunchShape::linear(blocks, BLOCK_THREADS)
}

/// The warpgroup kernel's launch: one full wave.
pub const fn wgmma_shape(processors: u32) -> Option<LaunchShape> {
    let blocks = processors as u64 * WGMMA_BLOCKS_PER_PROCESSOR as u64;
    LaunchShape::linear(blocks, BLOCK_THREADS)
}

/// Number of outputs of the FMA kernel: one per thread.
pub const fn fma_outputs(shape: &LaunchShape) -> u64 {
    shape.grid[0] as u64 * BLOCK_THREADS as u64
}

/// Number of outputs of a tensor-core kernel: one tile per warp. In the warpgroup kernel, the tile is the sum
/// of the chains.
pub const fn mma_outputs(shape: &LaunchShape) -> u64 {
    let warps = shape.grid[0] as u64 * (BLOCK_THREADS / WARP_THREADS) as u64;
    warps * (MMA_TILE[0] * MMA_TILE[1]) as u64
}

/// The value of all elements in row `row` of the left operand.
pub const fn mma_row_value(row: u32) -> f32 {
    (1 + row % 4) as f32
}

/// The value of all elements in column `column` of the right operand.
pub const fn mma_column_value(column: u32) -> f32 {
    (1 + column % 2) as f32
}

/// Start value of chain `chain` in the FMA kernel and the `mma` kernels. The chains differ to prevent the
/// compiler from merging them.
pub const fn chain_start(chain: usize) -> f32 {
    chain as f32
}
