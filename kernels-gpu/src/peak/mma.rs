//! Tensor cores: chains of matrix products.

use cuda_std::global::GlobalMut;
use cuda_std::mma::{m16n8k8_tf32, m16n8k16_f16, pack_f16x2, to_tf32};
use cuda_std::{kernel, thread, warp};
use launch_config::peak::{
    BLOCK_THREADS, CHAINS, MMA_BLOCKS_PER_PROCESSOR, MMA_LANE_ELEMENTS, chain_start,
    mma_column_value, mma_row_value,
};

use crate::parts::unroll::unroll;

/// A matrix multiply-accumulate instruction.
trait Product {
    /// An operand register whose elements are all `value`.
    fn encode(value: f32) -> u32;
    /// `a * b + d`.
    ///
    /// # Safety
    /// All lanes of the warp make this call.
    unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4];
}

/// Products of tf32.
struct Tf32;

impl Product for Tf32 {
    #[inline(always)]
    fn encode(value: f32) -> u32 {
        to_tf32(value)
    }

    #[inline(always)]
    unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
        m16n8k8_tf32(d, a, b)
    }
}

/// Products of f16.
struct F16;

impl Product for F16 {
    #[inline(always)]
    fn encode(value: f32) -> u32 {
        pack_f16x2(value, value)
    }

    #[inline(always)]
    unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
        m16n8k16_f16(d, a, b)
    }
}

/// Each warp multiplies a matrix of constant rows by one of constant columns, `steps * MMA_UNROLL` times in
/// each of `CHAINS` chains of links `d -> A * B + d`. It stores the sum of the chains' ends: the accumulators
/// of lane `l` of warp `w` start at element `(32 * w + l) * MMA_LANE_ELEMENTS`.
///
/// As rows of A and columns of B are constant, a register holds one value, however many elements it packs.
/// The fragments are therefore the same for all element types.
///
/// *Launch*: `peak::mma_shape(processors)`.
/// *Mapping*: four elements a thread, in the order of the instruction's accumulators.
/// *Barriers*: none.
/// *Traffic*: 16 bytes written by each thread.
///
/// # Safety
/// `y` has `MMA_LANE_ELEMENTS` elements for each thread of the grid, and is 16-byte aligned.
#[kernel(
    instances(P: [tf32: Tf32, f16: F16]),
    max_threads = BLOCK_THREADS,
    min_blocks = MMA_BLOCKS_PER_PROCESSOR
)]
pub unsafe fn peak_mma<P: Product>(y: *mut f32, steps: u32) {
    let threads = thread::grid_dim_x() as usize * BLOCK_THREADS as usize;
    let y = GlobalMut::new(y, threads * MMA_LANE_ELEMENTS);
    let group = warp::lane_id() / 4;
    let (upper, lower) = (
        P::encode(mma_row_value(group)),
        P::encode(mma_row_value(group + 8)),
    );
    let a = [upper, lower, upper, lower];
    let b = [P::encode(mma_column_value(group)); 2];
    let mut chains = [[0.0; MMA_LANE_ELEMENTS]; CHAINS];
    unroll!(8, |i| {
        chains[i] = [chain_start(i); MMA_LANE_ELEMENTS];
    });
    let mut step = 0;
    while step < steps {
        // MMA_UNROLL links.
        unroll!(4, |_link| {
            unroll!(8, |i| {
                chains[i] = P::multiply_add(chains[i], a, b);
            });
        });
        step += 1;
    }
    let mut sum = [0.0; MMA_LANE_ELEMENTS];
    unroll!(8, |i| {
        unroll!(4, |e| {
            sum[e] += chains[i][e];
        });
    });
    let index =
        thread::block_idx_x() as usize * BLOCK_THREADS as usize + thread::thread_idx_x() as usize;
    y.store_vec(index * MMA_LANE_ELEMENTS, sum);
}
