//! Memory bandwidth: a copy.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{kernel, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::peak::{
    BLOCK_THREADS, COPY_BLOCK_ELEMENTS, COPY_ROUND_ELEMENTS, COPY_VECTORS_PER_THREAD,
};

use crate::parts::unroll::unroll;

/// A block copies `COPY_BLOCK_ELEMENTS` consecutive elements of `x` to `y`.
///
/// *Launch*: `peak::copy_shape(elements)`.
/// *Mapping*: four vectors a thread, a block's width apart, all loaded before the first is stored.
/// *Barriers*: none.
/// *Traffic*: each element is read once and written once.
///
/// # Safety
/// `x` and `y` have `elements` elements, a multiple of `COPY_BLOCK_ELEMENTS`, are 16-byte aligned, and do not
/// overlap.
#[kernel(max_threads = BLOCK_THREADS)]
pub unsafe fn peak_copy_f32(x: *const f32, y: *mut f32, elements: u64) {
    let x = Global::new(x, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    let first = thread::block_idx_x() as usize * COPY_BLOCK_ELEMENTS
        + thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    let mut vectors = [[0.0; VECTOR_ELEMENTS]; COPY_VECTORS_PER_THREAD];
    unroll!(4, |v| {
        vectors[v] = x.load_vec(first + v * COPY_ROUND_ELEMENTS);
    });
    unroll!(4, |v| {
        y.store_vec(first + v * COPY_ROUND_ELEMENTS, vectors[v]);
    });
}
