//! Hopper's tensor cores as a convolution of many channels uses them: two warpgroups with the registers of a third one, 64 rows
//! each, both operands in shared memory.

use cuda_std::global::GlobalMut;
use cuda_std::mma::pack_f16x2;
use cuda_std::shared::Shared;
use cuda_std::wgmma::{self, MatrixDescriptor, UNIT_BYTES, unit};
use cuda_std::{async_proxy, kernel, registers, shared_array, thread};
use op_spec::launch::peak::{MMA_LANE_ELEMENTS, mma_column_value, mma_row_value};

use crate::parts::unroll::unroll;

/// Threads of a block: two warpgroups that multiply, and one that has given its registers to them.
pub const SHARED_CHAIN_THREADS: u32 = 384;

/// Threads that multiply, and store results.
pub const SHARED_CHAIN_CONSUMERS: u32 = 256;

/// Links of a chain, which one step of the loop adds.
pub const SHARED_CHAIN_STEPS: usize = 9;

/// Threads of a warpgroup, and rows of A that it multiplies.
const WARPGROUP: u32 = 128;
const WARPGROUP_ROWS: u32 = 64;

/// Rows of A, and the most columns of B.
const ROWS: u32 = SHARED_CHAIN_CONSUMERS / WARPGROUP * WARPGROUP_ROWS;
const MOST_COLUMNS: u32 = 256;

/// 32-bit words that a row, or column, has along K, and those in one core matrix: 16 bytes, the half of K.
const K_WORDS: u32 = 8;
const CORE_WORDS: u32 = 4;

/// Units of a row, or column, in one core matrix.
const CORE_UNITS: u32 = CORE_WORDS * 4 / UNIT_BYTES;

/// Registers that a thread has once they are shared out: 65,536 in all.
const PRODUCER_REGISTERS: u32 = 24;
const CONSUMER_REGISTERS: u32 = 240;

shared_array! {
    static ALL_ROWS: [u32; (ROWS * K_WORDS) as usize];
    static ALL_COLUMNS: [u32; (MOST_COLUMNS * K_WORDS) as usize];
}

/// Fills a tile of which each row, or column, holds one value throughout.
///
/// # Safety
/// `tile` has `K_WORDS` words for each of `extent` rows, and no thread reads it before the next barrier.
#[inline(always)]
unsafe fn fill(tile: Shared<u32>, extent: u32, value: impl Fn(u32) -> f32) {
    let mut word = thread::thread_idx_x();
    while word < extent * K_WORDS {
        let value = value(word / CORE_WORDS % extent);
        tile.store(word, pack_f16x2(value, value));
        word += SHARED_CHAIN_THREADS;
    }
}

/// Columns that one instruction multiplies.
trait Columns {
    const COLUMNS: u32;

    /// `steps` chains of the same rows and columns, one upon the other: the sums of each thread, summed over columns of eight.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call, with the same descriptors, of tiles that are visible to it.
    unsafe fn multiply(
        a: MatrixDescriptor,
        b: MatrixDescriptor,
        steps: u32,
    ) -> [f32; MMA_LANE_ELEMENTS];
}

macro_rules! columns {
    ($name:ident, $columns:literal, $add:ident, $octets:tt) => {
        struct $name;

        impl Columns for $name {
            const COLUMNS: u32 = $columns;

            #[inline(always)]
            unsafe fn multiply(
                a: MatrixDescriptor,
                b: MatrixDescriptor,
                steps: u32,
            ) -> [f32; MMA_LANE_ELEMENTS] {
                let mut values = [0.0; $columns / 2];
                let mut step = 0;
                while step < steps {
                    // While a warpgroup waits for these links the other one's keep the tensor cores busy.
                    let chain =
                        wgmma::$add(values, &[a; SHARED_CHAIN_STEPS], &[b; SHARED_CHAIN_STEPS]);
                    values = chain.wait::<0>();
                    step += 1;
                }
                let mut sum = [0.0; MMA_LANE_ELEMENTS];
                unroll!(8, |i| {
                    unroll!($octets, |j| {
                        unroll!(4, |e| {
                            sum[e] += values[4 * ($octets * i + j) + e];
                        });
                    });
                });
                sum
            }
        }
    };
}
columns!(N128, 128, add_shared_n128_f16_9, 2);
columns!(N256, 256, add_shared_n256_f16_9, 4);

/// Two warpgroups multiply 64 constant rows each by constant columns, both in shared memory, `steps * SHARED_CHAIN_STEPS`
/// times one upon the other. Element `e` of a thread's output is the sum of its accumulators `4 * i + e`.
///
/// *Launch*: any number of blocks of `SHARED_CHAIN_THREADS` threads.
/// *Mapping*: four elements a thread of the first `SHARED_CHAIN_CONSUMERS`, which are those that `m16n8` products would give
/// it, summed over the tile's columns of eight.
/// *Barriers*: one, uniform, after the operands are written.
/// *Traffic*: 16 bytes written by each of these threads.
///
/// # Safety
/// `y` has four elements for each of these threads of the grid, and starts on 16 bytes.
#[kernel(
    instances(N: [n128_f16: N128, n256_f16: N256]),
    max_threads = SHARED_CHAIN_THREADS,
    min_blocks = 1
)]
pub unsafe fn peak_wgmma_shared<N: Columns>(y: *mut f32, steps: u32) {
    let consumers = thread::grid_dim_x() as usize * SHARED_CHAIN_CONSUMERS as usize;
    let y = GlobalMut::new(y, consumers * MMA_LANE_ELEMENTS);
    let (rows, columns) = (ALL_ROWS.view(), ALL_COLUMNS.view());
    fill(rows, ROWS, mma_row_value);
    fill(columns, N::COLUMNS, mma_column_value);
    async_proxy::fence_shared();
    thread::sync_threads();

    let thread = thread::thread_idx_x();
    if thread >= SHARED_CHAIN_CONSUMERS {
        registers::decrease::<PRODUCER_REGISTERS>();
        return;
    }
    registers::increase::<CONSUMER_REGISTERS>();
    // Core matrices follow one another along the rows, then along K.
    let first = thread / WARPGROUP * WARPGROUP_ROWS * CORE_UNITS;
    let a = MatrixDescriptor::new(unit(rows.addr(0)), ROWS * CORE_UNITS).offset(first);
    let b = MatrixDescriptor::new(unit(columns.addr(0)), N::COLUMNS * CORE_UNITS);
    let sum = N::multiply(a, b, steps);
    let index = thread::block_idx_x() as usize * SHARED_CHAIN_CONSUMERS as usize + thread as usize;
    y.store_vec(index * MMA_LANE_ELEMENTS, sum);
}
