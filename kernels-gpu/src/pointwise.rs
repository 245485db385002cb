//! The pointwise functions: each element by itself, wherever it stands.
//!
//! One kernel does all of them, and several after each other: `parts/pointwise.rs` has the functions.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::elementwise::{
    BLOCK_ELEMENTS, BLOCK_THREADS, MIN_BLOCKS, ROUND_ELEMENTS, VECTORS_PER_THREAD,
};
use launch_config::pointwise::PointwiseList;

use crate::parts::elementwise::block_start;
use crate::parts::pointwise::apply;
use crate::parts::unroll::unroll;

/// A block does a list of functions to `BLOCK_ELEMENTS` consecutive elements of `x`, in f32, and writes what
/// comes of it into `y`.
///
/// *Launch*: `pointwise::shape(elements)`. *Mapping*: four vectors a thread, a block's width apart; the list
/// is done to two of them, then to the other two. *Barriers*: none. *Traffic*: each element is read once and
/// written once.
///
/// # Safety
/// `x` and `y` have `elements` elements and start on 16 bytes; `y` is `x` or apart from it.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn pointwise<T: Storage>(x: *const T, y: *mut T, elements: u64, list: &PointwiseList) {
    let x = Global::new(x, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    let start = block_start() as usize;
    let first = start + thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    let is_full = x.len() - start >= BLOCK_ELEMENTS;
    let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS_PER_THREAD];
    if is_full {
        unroll!(4, |v| {
            vectors[v] = x.load_vec(first + v * ROUND_ELEMENTS);
        });
    } else {
        unroll!(16, |i| {
            let at = first + i / VECTOR_ELEMENTS * ROUND_ELEMENTS + i % VECTOR_ELEMENTS;
            if at < x.len() {
                vectors[i / VECTOR_ELEMENTS][i % VECTOR_ELEMENTS] = x.load(at);
            }
        });
    }
    // One half after the other, since the walker's code is written out for every value.
    let pair = |a, b| {
        let ([a, b, c, d], [e, f, g, h]) = (T::to_f32_vector(a), T::to_f32_vector(b));
        [a, b, c, d, e, f, g, h]
    };
    let mut halves = [pair(vectors[0], vectors[1]), pair(vectors[2], vectors[3])];
    let mut done = 0;
    while done < halves.len() {
        halves = [halves[1], apply::<T, _>(list, halves[0])];
        done += 1;
    }
    unroll!(4, |v| {
        let half = halves[v / 2];
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| half[v % 2 * VECTOR_ELEMENTS + i]);
        vectors[v] = T::from_f32_vector([a, b, c, d]);
    });
    if is_full {
        unroll!(4, |v| {
            y.store_vec(first + v * ROUND_ELEMENTS, vectors[v]);
        });
    } else {
        unroll!(16, |i| {
            let at = first + i / VECTOR_ELEMENTS * ROUND_ELEMENTS + i % VECTOR_ELEMENTS;
            if at < x.len() {
                y.store(at, vectors[i / VECTOR_ELEMENTS][i % VECTOR_ELEMENTS]);
            }
        });
    }
}
