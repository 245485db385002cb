//! `layer_norm` over channels and space: rows are samples, and each element has a weight and a bias of its
//! own.
//!
//! Two launches. The first is that of `group_norm`, whose rows these are; the second combines the splits of
//! its rows and normalises. Without weight and bias it is a group norm of one group.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::elementwise::{BLOCK_THREADS, MIN_BLOCKS, ROUND_ELEMENTS};
use launch_config::norm::ApplyGeometry;

use crate::parts::index::NearSegments;
use crate::parts::map::PlaneMap;
use crate::parts::planes::{Behind, NormTensors, Planes, affine};

/// A block normalises `g.block_elements` consecutive elements of `x` into `y`.
///
/// *Launch*: `g.shape()`. *Mapping*: vectors go to the threads in turn. *Barriers*: one, after the statistics
/// of the block's rows are in shared memory, and one before it if these are in splits. *Traffic*: each
/// element is read once and written once; weight and bias are read once for each row, from cache but for the
/// first.
///
/// # Safety
/// `x` and `y` have `g.elements` elements and start on 16 bytes; `g.norm` has one channel, without weight and
/// bias, whose plane is a row; `partials` is what `group_norm`'s statistics kernel wrote for `x`; `weight`
/// and `bias` have `g.spatial` elements, f32 ones where the norm is wide, or are null; `y` is `x` or apart
/// from it.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn layer_norm_apply<T: Storage>(
    x: *const T,
    partials: *const f32,
    weight: *const T,
    bias: *const T,
    y: *mut T,
    g: &ApplyGeometry,
) {
    let start = thread::block_idx_x() as u64 * g.block_elements as u64;
    let left = (g.elements - start).min(g.block_elements as u64) as u32;
    // Below `left <= g.block_elements`, so these are the block's elements and no others.
    let x = Global::new(x, g.elements as usize).slice(start as usize, left as usize);
    let y = GlobalMut::new(y, g.elements as usize).slice(start as usize, left as usize);
    let row = g.spatial as usize;
    let segments = NearSegments::from(start, g.spatial, &g.near);
    let count = segments.locate(left - 1).0 + 1;
    let tensors = NormTensors::<T> {
        partials,
        before: core::ptr::null(),
        weight: core::ptr::null(),
        bias: core::ptr::null(),
        scale: core::ptr::null(),
        behind: Behind::FACTORS,
    };
    let planes = Planes::stage(&g.norm, tensors, segments.first, count);
    let map = |local: u32, x: f32| {
        let (begun, position) = segments.position(local);
        let params = planes.params(begun);
        let of_element = |values: *const T, absent: f32| {
            if values.is_null() {
                return absent;
            }
            affine(values, row, position as usize, g.norm.wide)
        };
        let weight = of_element(weight, 1.0);
        math::fma(params.norm(x), weight, of_element(bias, 0.0))
    };
    let mut at = thread::thread_idx_x() * VECTOR_ELEMENTS as u32;
    while at < left {
        if at + VECTOR_ELEMENTS as u32 <= left {
            let values = T::to_f32_vector(x.load_vec(at as usize));
            let mapped = [0, 1, 2, 3].map(|i: u32| map(at + i, values[i as usize]));
            y.store_vec(at as usize, T::from_f32_vector(mapped));
        } else {
            let mut i = at;
            while i < left {
                let mapped = map(i, x.load(i as usize).to_f32());
                y.store(i as usize, T::from_f32(mapped));
                i += 1;
            }
        }
        at += ROUND_ELEMENTS as u32;
    }
}
