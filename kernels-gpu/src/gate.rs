//! `gate_nhwc` multiplies each value of a channels-last tensor by the factor of its sample and channel. (In
//! an NCHW tensor each plane has one factor, so the operator is a [scale](fn@crate::scale::scale).)

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::gate::{
    BLOCK_THREADS, BLOCK_VECTORS, GateGeometry, MIN_BLOCKS, VECTORS_PER_THREAD,
};

use crate::parts::index::NearSegments;
use crate::parts::unroll::unroll;

/// A block multiplies `BLOCK_VECTORS` consecutive vectors of channels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: four vectors a thread, a block's width apart. A thread loads all of them before it stores the
/// first.
/// *Barriers*: none.
/// *Traffic*: each element is read once and written once; the gate comes from cache.
///
/// # Safety
/// `x` and `y` are channels last, have `g.vectors()` vectors, are 16-byte aligned and do not overlap. `gate`
/// has one pixel's vectors for each sample and is 16-byte aligned. Samples of `g` consist of whole pixels.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn gate_nhwc<T: Storage>(x: *const T, gate: *const T, y: *mut T, g: &GateGeometry) {
    let elements = |vectors: u64| vectors as usize * VECTOR_ELEMENTS;
    let x = Global::new(x, elements(g.vectors()));
    let gate = Global::new(gate, elements(g.samples * g.pixel.divisor as u64));
    let y = GlobalMut::new(y, elements(g.vectors()));
    let start = thread::block_idx_x() as u64 * BLOCK_VECTORS as u64;
    let left = g.vectors() - start;
    let segments = NearSegments::from(start, g.sample_vectors as u64, &g.near);
    let thread = thread::thread_idx_x();
    let is_inside = |local: u32| (local as u64) < left;
    let mut products = [[0.0; VECTOR_ELEMENTS]; VECTORS_PER_THREAD];
    unroll!(4, |v| {
        let local = thread + v as u32 * BLOCK_THREADS;
        if is_inside(local) {
            let (samples, position) = segments.position(local);
            // A sample has less than 2^31 vectors.
            let (_, vector) = g.pixel.div_rem(position as u32, math::high_word);
            let first = (segments.first + samples as u64) * g.pixel.divisor as u64;
            let factors = gate.load_vec(elements(first + vector as u64));
            let factors = T::to_f32_vector(factors);
            let values = T::to_f32_vector(x.load_vec(elements(start + local as u64)));
            unroll!(4, |c| {
                products[v][c] = values[c] * factors[c];
            });
        }
    });
    unroll!(4, |v| {
        let local = thread + v as u32 * BLOCK_THREADS;
        if is_inside(local) {
            let product = T::from_f32_vector(products[v]);
            y.store_vec(elements(start + local as u64), product);
        }
    });
}
