//! `add`: the sum of two tensors of one shape.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::elementwise::{
    BLOCK_ELEMENTS, BLOCK_THREADS, MIN_BLOCKS, ROUND_ELEMENTS, VECTORS_PER_THREAD,
};

use crate::parts::elementwise::block_start;
use crate::parts::unroll::unroll;

/// A block adds `BLOCK_ELEMENTS` consecutive elements of `residual` to those of `x`, in f32, and writes the
/// sums into `y`.
///
/// *Launch*: `elementwise::shape(elements)`. *Mapping*: four vectors of either tensor a thread, a block's
/// width apart, all of them loaded before the first sum. *Barriers*: none. *Traffic*: each element of both is
/// read once, each sum written once.
///
/// # Safety
/// `x`, `residual` and `y` have `elements` elements and start on 16 bytes; `y` is `x`, or `residual`, or
/// apart from them; `x` and `residual` may be the same.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn add<T: Storage>(x: *const T, residual: *const T, y: *mut T, elements: u64) {
    let x = Global::new(x, elements as usize);
    let residual = Global::new(residual, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    let start = block_start() as usize;
    let first = start + thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    if x.len() - start >= BLOCK_ELEMENTS {
        let mut vectors = [[[T::from_f32(0.0); VECTOR_ELEMENTS]; 2]; VECTORS_PER_THREAD];
        unroll!(4, |v| {
            let at = first + v * ROUND_ELEMENTS;
            vectors[v] = [x.load_vec(at), residual.load_vec(at)];
        });
        unroll!(4, |v| {
            let [a, b] = vectors[v].map(T::to_f32_vector);
            let sums = [0, 1, 2, 3].map(|i| a[i] + b[i]);
            y.store_vec(first + v * ROUND_ELEMENTS, T::from_f32_vector(sums));
        });
        return;
    }
    // The last block, if it is not full.
    let mut vector = first;
    while vector < x.len() {
        let end = x.len().min(vector + VECTOR_ELEMENTS);
        let mut at = vector;
        while at < end {
            let sum = x.load(at).to_f32() + residual.load(at).to_f32();
            y.store(at, T::from_f32(sum));
            at += 1;
        }
        vector += ROUND_ELEMENTS;
    }
}
