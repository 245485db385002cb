//! Peak of Hopper's tensor cores: chains of `wgmma`.

use cuda_std::global::GlobalMut;
use cuda_std::mma::pack_f16x2;
use cuda_std::shared::Shared;
use cuda_std::wgmma::{self, MatrixDescriptor, UNIT_BYTES, unit};
use cuda_std::{async_proxy, kernel, shared_array, thread};
use launch_config::peak::{
    BLOCK_THREADS, MMA_LANE_ELEMENTS, WGMMA_BLOCKS_PER_PROCESSOR, WGMMA_TILE, WGMMA_UNROLL,
    mma_column_value, mma_row_value,
};

use crate::parts::unroll::unroll;

/// Rows of the left operand, and columns of the right one.
const ROWS: u32 = WGMMA_TILE[0] as u32;
const COLUMNS: u32 = WGMMA_TILE[1] as u32;

/// 32-bit words of a row or column along K.
const K_WORDS: u32 = 8;

/// Words of a row in one core matrix: 16 bytes, half of K.
const CORE_WORDS: u32 = 4;

shared_array! {
    static A: [u32; (ROWS * K_WORDS) as usize];
    static B: [u32; (COLUMNS * K_WORDS) as usize];
}

/// Fills a tile in which each row or column holds one value throughout.
///
/// # Safety
/// `tile` has `K_WORDS` words for each of `extent` rows, and no thread reads it before the next barrier.
#[inline(always)]
unsafe fn fill(tile: Shared<u32>, extent: u32, value: impl Fn(u32) -> f32) {
    let mut word = thread::thread_idx_x();
    while word < extent * K_WORDS {
        let value = value(word / CORE_WORDS % extent);
        tile.store(word, pack_f16x2(value, value));
        word += BLOCK_THREADS;
    }
}

/// Each warpgroup multiplies a matrix of constant rows by one of constant columns, both in shared memory. It
/// accumulates `steps * WGMMA_UNROLL` products in sequence. Element `e` of a thread's output is the sum of
/// its accumulators `4 * i + e`.
///
/// *Launch*: `peak::wgmma_shape(processors)`. *Mapping*: four elements a thread, the fragment of an `m16n8`
/// product, summed over the tile's groups of eight columns. *Barriers*: one, uniform, after the operands are
/// written. *Traffic*: 16 bytes written by each thread.
///
/// # Safety
/// `y` has four elements for each thread of the grid, and is 16-byte aligned.
#[kernel(max_threads = BLOCK_THREADS, min_blocks = WGMMA_BLOCKS_PER_PROCESSOR)]
pub unsafe fn peak_wgmma_f16(y: *mut f32, steps: u32) {
    let threads = thread::grid_dim_x() as usize * BLOCK_THREADS as usize;
    let y = GlobalMut::new(y, threads * MMA_LANE_ELEMENTS);
    let (a, b) = (A.view(), B.view());
    fill(a, ROWS, mma_row_value);
    fill(b, COLUMNS, mma_column_value);
    async_proxy::fence_shared();
    thread::sync_threads();

    // Core matrices follow one another along the rows, then along K.
    let half = |extent| extent * CORE_WORDS * 4 / UNIT_BYTES;
    let a = MatrixDescriptor::new(unit(a.addr(0)), half(ROWS));
    let b = MatrixDescriptor::new(unit(b.addr(0)), half(COLUMNS));
    let mut values = [0.0; WGMMA_TILE[1] / 2];
    let mut step = 0;
    while step < steps {
        // While a warpgroup waits for these links, the other warpgroup keeps the tensor cores busy.
        wgmma::add_shared_f16_8(
            &mut values,
            &[a; WGMMA_UNROLL as usize],
            &[b; WGMMA_UNROLL as usize],
        );
        step += 1;
    }
    let mut sum = [0.0; MMA_LANE_ELEMENTS];
    unroll!(8, |i| {
        unroll!(4, |j| {
            unroll!(4, |e| {
                sum[e] += values[16 * i + 4 * j + e];
            });
        });
    });
    let index =
        thread::block_idx_x() as usize * BLOCK_THREADS as usize + thread::thread_idx_x() as usize;
    y.store_vec(index * MMA_LANE_ELEMENTS, sum);
}
