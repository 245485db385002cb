//! The loop of every kernel that reads an element and writes one.
//!
//! All vectors of a thread are loaded before the first is used: with 256 threads a block and four
//! 16-byte loads a thread, the memory system has enough outstanding to run at its bandwidth.

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::thread;
use op_spec::launch::VECTOR_ELEMENTS;
use op_spec::launch::elementwise::{BLOCK_ELEMENTS, STEP_ELEMENTS, VECTORS_PER_THREAD};

use crate::map::ElementMap;
use crate::unroll::unroll;

/// The first element of the block that is asking.
#[inline(always)]
pub(crate) fn block_start() -> u64 {
    thread::block_idx_x() as u64 * BLOCK_ELEMENTS as u64
}

/// How many of `elements` the block that is asking has.
///
/// # Safety
/// The block's first element is one of them.
#[inline(always)]
pub(crate) unsafe fn block_span(elements: u64) -> u32 {
    (elements - block_start()).min(BLOCK_ELEMENTS as u64) as u32
}

/// Maps the block's elements of `x` to `y`.
///
/// # Safety
/// `x` and `y` start on 16 bytes, have equal lengths, and the block's first element is below them.
#[inline(always)]
pub(crate) unsafe fn map_block<T: Storage>(x: Global<T>, y: GlobalMut<T>, map: impl ElementMap) {
    let start = block_start() as usize;
    let first = thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    let left = x.len() - start;
    if left >= BLOCK_ELEMENTS {
        let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS_PER_THREAD];
        unroll!(4, |v| {
            vectors[v] = x.load_vec(start + first + v * STEP_ELEMENTS);
        });
        unroll!(4, |v| {
            let local = first + v * STEP_ELEMENTS;
            y.store_vec(start + local, map_vector(&map, local as u32, vectors[v]));
        });
        return;
    }
    let mut local = first;
    while local < left {
        if local + VECTOR_ELEMENTS <= left {
            let vector = x.load_vec(start + local);
            y.store_vec(start + local, map_vector(&map, local as u32, vector));
        } else {
            let mut last = local;
            while last < left {
                let params = map.params(last as u32);
                let value = map.apply(params, x.load(start + last).to_f32());
                y.store(start + last, T::from_f32(value));
                last += 1;
            }
        }
        local += STEP_ELEMENTS;
    }
}

/// A mapped vector, whose first element is `local` elements into the block.
#[inline(always)]
unsafe fn map_vector<T: Storage, M: ElementMap>(
    map: &M,
    local: u32,
    mut vector: [T; VECTOR_ELEMENTS],
) -> [T; VECTOR_ELEMENTS] {
    if map.in_one(local, VECTOR_ELEMENTS as u32) {
        let params = map.params(local);
        unroll!(4, |i| {
            vector[i] = T::from_f32(map.apply(params, vector[i].to_f32()));
        });
    } else {
        unroll!(4, |i| {
            let params = map.params(local + i as u32);
            vector[i] = T::from_f32(map.apply(params, vector[i].to_f32()));
        });
    }
    vector
}
