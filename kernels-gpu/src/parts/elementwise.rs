//! The loop of `scale` and `prelu`, which read and write each element once.
//!
//! All vectors of a thread are loaded before the first is used. With 256 threads a block and four 16-byte
//! loads a thread, enough loads are in flight to reach the memory bandwidth. The map is made after these
//! loads are issued, so they hide the division that finds its first channel.

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::thread;
use launch_config::VECTOR_ELEMENTS;
use launch_config::elementwise::{BLOCK_ELEMENTS, ROUND_ELEMENTS, VECTORS_PER_THREAD};

use crate::parts::map::ElementMap;
use crate::parts::unroll::unroll;

/// The first element of the calling block.
#[inline(always)]
pub(crate) fn block_start() -> u64 {
    thread::block_idx_x() as u64 * BLOCK_ELEMENTS as u64
}

/// Maps the block's elements of `x` to `y` by the result of `make_map`.
///
/// # Safety
/// All threads of the block call it, so `make_map` may have barriers. `x` and `y` are 16-byte aligned, have
/// equal lengths that exceed the block's first element, and are the same tensor or do not overlap.
#[inline(always)]
pub(crate) unsafe fn map_block<T: Storage, M: ElementMap>(
    x: Global<T>,
    y: GlobalMut<T>,
    make_map: impl FnOnce() -> M,
) {
    let start = block_start() as usize;
    let first = thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    let left = x.len() - start;
    if left >= BLOCK_ELEMENTS {
        let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS_PER_THREAD];
        unroll!(4, |v| {
            vectors[v] = x.load_vec(start + first + v * ROUND_ELEMENTS);
        });
        let map = make_map();
        unroll!(4, |v| {
            let local = first + v * ROUND_ELEMENTS;
            if map.in_one(local as u32, VECTOR_ELEMENTS as u32) {
                let params = map.params(local as u32);
                let mapped = T::to_f32_vector(vectors[v]).map(|x| map.apply(params, x));
                y.store_vec(start + local, T::from_f32_vector(mapped));
            } else {
                map_each(x, y, &map, start, local, local + VECTOR_ELEMENTS);
            }
        });
        return;
    }
    // The last block, which is not full.
    let map = make_map();
    let mut local = first;
    while local < left {
        map_each(x, y, &map, start, local, left.min(local + VECTOR_ELEMENTS));
        local += ROUND_ELEMENTS;
    }
}

/// Maps the elements `local..end` of the block that starts with element `start`, one at a time. This slow
/// path is for vectors whose elements differ in their parameters, and for the last elements.
///
/// # Safety
/// As [`map_block`], and `start + end <= x.len()`.
#[inline(always)]
unsafe fn map_each<T: Storage>(
    x: Global<T>,
    y: GlobalMut<T>,
    map: &impl ElementMap,
    start: usize,
    local: usize,
    end: usize,
) {
    let mut at = local;
    while at < end {
        let value = map.apply(map.params(at as u32), x.load(start + at).to_f32());
        y.store(start + at, T::from_f32(value));
        at += 1;
    }
}
