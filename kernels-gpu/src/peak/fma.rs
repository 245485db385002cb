//! f32 arithmetic: chains of fused multiply-adds.

use cuda_std::global::GlobalMut;
use cuda_std::{kernel, math, thread};
use launch_config::peak::{BLOCK_THREADS, CHAINS, FMA_BLOCKS_PER_PROCESSOR, chain_start};

use crate::parts::unroll::unroll;

/// Each thread lengthens `CHAINS` chains by `steps * FMA_UNROLL` links `v -> v * factor + summand` and stores
/// the sum of their ends.
///
/// With `factor` and `summand` 1, which the compiler cannot know, the value of a chain is its number of
/// links.
///
/// *Launch*: `peak::fma_shape(processors)`.
/// *Mapping*: a thread stores the element of its index.
/// *Barriers*: none.
/// *Traffic*: 4 bytes written by each thread.
///
/// # Safety
/// `y` has an element for each thread of the grid.
#[kernel(max_threads = BLOCK_THREADS, min_blocks = FMA_BLOCKS_PER_PROCESSOR)]
pub unsafe fn peak_fma_f32(y: *mut f32, steps: u32, factor: f32, summand: f32) {
    let threads = thread::grid_dim_x() as usize * BLOCK_THREADS as usize;
    let y = GlobalMut::new(y, threads);
    let mut chains = [0.0; CHAINS];
    unroll!(8, |i| {
        chains[i] = chain_start(i);
    });
    let mut step = 0;
    while step < steps {
        // 4 * 8 links are `FMA_UNROLL`. The loop's own instructions take issue slots from the FMAs, so
        // iterations are few and long.
        unroll!(4, |_eighth| {
            unroll!(8, |_link| {
                unroll!(8, |i| {
                    chains[i] = math::fma(chains[i], factor, summand);
                });
            });
        });
        step += 1;
    }
    let mut sum = 0.0;
    unroll!(8, |i| {
        sum += chains[i];
    });
    let index = thread::block_idx_x() as usize * BLOCK_THREADS as usize;
    y.store(index + thread::thread_idx_x() as usize, sum);
}
