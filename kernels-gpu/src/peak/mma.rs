//! Tensor cores: chains of matrix products.

use cuda_std::global::GlobalMut;
use cuda_std::mma::{m16n8k8_tf32, m16n8k16_f16, pack_f16x2, to_tf32};
use cuda_std::{kernel, thread, warp};
use op_spec::launch::peak::{
    BLOCK_THREADS, CHAINS, MMA_BLOCKS_PER_PROCESSOR, MMA_LANE_ELEMENTS, chain_start,
    mma_column_value, mma_row_value,
};

use crate::parts::unroll::unroll;

/// Lengthens `CHAINS` chains of products by `steps * MMA_UNROLL` links `d -> A * B + d`, and stores the sum of their ends:
/// the accumulators of lane `l` of warp `w` from element `(32 * w + l) * MMA_LANE_ELEMENTS` on.
///
/// The rows of A are constant, the columns of B too. So a register holds one value however many elements
/// it packs, and the fragments are the same for all element types.
///
/// # Safety
/// All threads of the block call it. `y` has `MMA_LANE_ELEMENTS` elements for each thread of the grid, and starts on 16 bytes.
#[inline(always)]
unsafe fn multiply_repeatedly(
    y: *mut f32,
    steps: u32,
    encode: impl Fn(f32) -> u32,
    multiply: impl Fn([f32; 4], [u32; 4], [u32; 2]) -> [f32; 4],
) {
    let threads = thread::grid_dim_x() as usize * BLOCK_THREADS as usize;
    let y = GlobalMut::new(y, threads * MMA_LANE_ELEMENTS);
    let group = warp::lane_id() / 4;
    let (upper, lower) = (
        encode(mma_row_value(group)),
        encode(mma_row_value(group + 8)),
    );
    let a = [upper, lower, upper, lower];
    let b = [encode(mma_column_value(group)); 2];
    let mut chains = [[0.0; MMA_LANE_ELEMENTS]; CHAINS];
    unroll!(8, |i| {
        chains[i] = [chain_start(i); MMA_LANE_ELEMENTS];
    });
    let mut step = 0;
    while step < steps {
        // MMA_UNROLL links.
        unroll!(4, |_link| {
            unroll!(8, |i| {
                chains[i] = multiply(chains[i], a, b);
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

macro_rules! mma_kernel {
    ($name:ident, $multiply:ident, $encode:expr) => {
        /// Each warp multiplies a matrix of constant rows by one of constant columns, `steps * MMA_UNROLL` times in each of
        /// `CHAINS` chains, and stores the sum of their ends.
        ///
        /// *Launch*: `peak::mma_shape(processors)`.
        /// *Mapping*: four elements a thread, in the order of the instruction's accumulators.
        /// *Barriers*: none.
        /// *Traffic*: 16 bytes written by each thread.
        ///
        /// # Safety
        /// `y` has four elements for each thread of the grid, and starts on 16 bytes.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = MMA_BLOCKS_PER_PROCESSOR)]
        pub unsafe fn $name(y: *mut f32, steps: u32) {
            multiply_repeatedly(y, steps, $encode, |d, a, b| $multiply(d, a, b));
        }
    };
}

mma_kernel!(peak_mma_tf32, m16n8k8_tf32, to_tf32);
mma_kernel!(peak_mma_f16, m16n8k16_f16, |value| pack_f16x2(value, value));
