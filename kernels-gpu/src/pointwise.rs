//! Pointwise functions, and arithmetic with a residual, on elements of any layout.
//!
//! Three kernels: one for lists of functions, one for lists that may contain a residual, and one for lists
//! that also keep values for later steps. `parts/pointwise.rs` has the functions.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::elementwise::{
    BLOCK_ELEMENTS, BLOCK_THREADS, MIN_BLOCKS, ROUND_ELEMENTS, VECTORS_PER_THREAD,
};
use launch_config::pointwise::{OperandList, PointwiseList};

use crate::parts::elementwise::block_start;
use crate::parts::pointwise::{InRegisters, KeepsNothing, List, apply, apply_with_residual};
use crate::parts::unroll::unroll;

/// Reduction of the blocks on a multiprocessor for the registers of a residual, and again for those of kept
/// values.
const ROOMY: u32 = 1;

/// A block applies a list of functions to `BLOCK_ELEMENTS` consecutive elements of `x`, in f32, and writes
/// the results to `y`.
///
/// *Launch*: `pointwise::shape(elements)`. *Mapping*: four vectors a thread, a block's width apart; the list
/// is applied to two of them, then to the other two. *Barriers*: none. *Traffic*: each element is read once
/// and written once.
///
/// # Safety
/// `x` and `y` have `elements` elements and are 16-byte aligned; `y` is `x` or does not overlap it.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn pointwise<T: Storage>(x: *const T, y: *mut T, elements: u64, list: &PointwiseList) {
    map(x, y, elements, List::Functions(list), false);
}

/// A block applies a list of functions, which may contain a residual, to `BLOCK_ELEMENTS` consecutive
/// elements of `x`, in f32, and writes the results to `y`.
///
/// *Launch*: `pointwise::shape(elements)`. *Mapping*: four vectors a thread, a block's width apart; the list
/// is applied to two of them, then to the other two. *Barriers*: none. *Traffic*: each element of `x` and of
/// the residual is read once, each result written once.
///
/// # Safety
/// `x` and `y` have `elements` elements, and so has `residual` if the list has it. All are 16-byte aligned.
/// `y` is `x`, or `residual`, or overlaps neither; `x` and `residual` may be the same.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS - ROOMY)]
pub unsafe fn pointwise_residual<T: Storage>(
    x: *const T,
    residual: *const T,
    y: *mut T,
    elements: u64,
    list: &OperandList,
) {
    let residual = Global::new(residual, elements as usize);
    map(x, y, elements, List::WithResidual(list, residual), false);
}

/// [`fn@pointwise_residual`] for lists that keep a value for later steps. The list may also have a residual.
///
/// # Safety
/// As for [`fn@pointwise_residual`].
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS - 2 * ROOMY)]
pub unsafe fn pointwise_kept<T: Storage>(
    x: *const T,
    residual: *const T,
    y: *mut T,
    elements: u64,
    list: &OperandList,
) {
    let residual = Global::new(residual, elements as usize);
    map(x, y, elements, List::WithResidual(list, residual), true);
}

/// The body of all three kernels. Whether the list `keeps` a value is a compile-time constant of each kernel.
#[inline(always)]
unsafe fn map<T: Storage>(x: *const T, y: *mut T, elements: u64, list: List<'_, T>, keeps: bool) {
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
    // One half after the other, because the list's code is unrolled for every value.
    let pair = |a, b| {
        let ([a, b, c, d], [e, f, g, h]) = (T::to_f32_vector(a), T::to_f32_vector(b));
        [a, b, c, d, e, f, g, h]
    };
    let mut halves = [pair(vectors[0], vectors[1]), pair(vectors[2], vectors[3])];
    let mut done = 0;
    while done < halves.len() {
        let half = match list {
            List::Functions(list) => apply::<T, _>(list, halves[0]),
            List::WithResidual(list, residual) => {
                let mut added = [[T::from_f32(0.0); VECTOR_ELEMENTS]; 2];
                let first = first + 2 * done * ROUND_ELEMENTS;
                if list.has_residual() && is_full {
                    added = [0, 1].map(|v| residual.load_vec(first + v * ROUND_ELEMENTS));
                } else if list.has_residual() {
                    unroll!(8, |i| {
                        let at = first + i / VECTOR_ELEMENTS * ROUND_ELEMENTS + i % VECTOR_ELEMENTS;
                        if at < x.len() {
                            added[i / VECTOR_ELEMENTS][i % VECTOR_ELEMENTS] = residual.load(at);
                        }
                    });
                }
                let (values, added) = (halves[0], pair(added[0], added[1]));
                if keeps {
                    apply_with_residual::<T, _>(list, values, added, InRegisters(values))
                } else {
                    apply_with_residual::<T, _>(list, values, added, KeepsNothing)
                }
            }
        };
        halves = [halves[1], half];
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
