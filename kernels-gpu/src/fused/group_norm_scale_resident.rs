//! `group_norm` and `scale` in one launch that reads the tensor once.
//!
//! # Idea
//! A block reads its row for the statistics, keeps as much of it as fits in shared memory, and normalises
//! from there. It reads the rest again, from the level-2 cache if that still holds it. Rows that do not start
//! on a vector, of lengths that are no multiple of four, are not kept, but read twice. With statistics in a
//! launch of their own the tensor crosses the memory bus three times, here twice.
//!
//! ```text
//! a block has a row: the channels of one group of one sample
//! for each vector of the row, 1,024 threads by turns:
//!     moments += moments of the vector
//!     kept[vector] = vector, if shared memory reaches that far
//! moments of the block: lanes, warps, and by one barrier all of it
//! mean, rstd = 1 / sqrt(variance + eps), from one thread to all; barrier
//! for each plane of the row:
//!     factor = rstd * weight[channel]; added = bias[channel]; times = scale[channel]
//!     for each vector of the plane:
//!         x = kept[vector], or the vector once more
//!         y = ((x - mean) * factor + added) * times
//!     the up to three elements before the first vector and behind the last one, from memory
//! ```
//!
//! One block fills a multiprocessor, so this pays only with rows for all multiprocessors.
//! `NormGeometry::resident_shape` decides.

use cuda_std::{
    Storage, bf16, f16,
    global::{Global, GlobalMut},
    kernel, math, shared, shared_array, thread,
};
use launch_config::norm::{NormGeometry, RESIDENT_BYTES, RESIDENT_THREADS};
use launch_config::{VECTOR_ELEMENTS, WARP_THREADS};

use crate::parts::index::div_rem;
use crate::parts::moments::{self, WARP_SLOT, whole_vectors};
use crate::parts::planes::affine;

/// Warps of a block.
const WARPS: u32 = RESIDENT_THREADS / WARP_THREADS;

shared_array! {
    /// The moments of each warp; then, in the first two places, mean and reciprocal deviation.
    static GROUP_NORM_SCALE_RESIDENT_WARPS: [f32; (WARPS * WARP_SLOT) as usize];
}

/// A block normalises and scales one row of `x` into `y`.
///
/// *Launch*: `g.resident_shape(size_of element)`. *Mapping*: vectors of the row go to the threads in turn.
/// *Barriers*: two, around handing the row's statistics to all threads. *Traffic*: each element is read once,
/// if the row fits in shared memory and starts on a vector, and written once.
///
/// # Safety
/// `x` and `y` have `g.elements()` elements, are 16-byte aligned and do not overlap. `scale`, and `weight`
/// and `bias` if the geometry says that they exist, have `g.channels` elements. Weight and bias are f32 if
/// the geometry says so.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = RESIDENT_THREADS)]
pub unsafe fn group_norm_scale_resident<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    scale: *const T,
    y: *mut T,
    g: &NormGeometry,
) {
    let x = Global::new(x, g.elements() as usize);
    let y = GlobalMut::new(y, g.elements() as usize);
    let channels = g.channels as usize;
    let scale = Global::new(scale, channels);

    let thread = thread::thread_idx_x() as usize;
    let threads = RESIDENT_THREADS as usize;
    let start = thread::block_idx_x() as usize * g.row_elements as usize;
    let end = start + g.row_elements as usize;

    // Only rows that start on a vector are read in vectors, which are kept.
    let kept_elements = match start.is_multiple_of(VECTOR_ELEMENTS) {
        true => (RESIDENT_BYTES as usize / size_of::<T>()).min(end - start),
        false => 0,
    };
    let kept = shared::dynamic::<T>(0, kept_elements as u32);
    let is_kept = |at: usize| at - start + VECTOR_ELEMENTS <= kept_elements;

    let mine = moments::of_range(x, start, end, thread, threads, |at, vector| {
        if is_kept(at) {
            kept.store_vec((at - start) as u32, vector);
        }
    });
    let scratch = GROUP_NORM_SCALE_RESIDENT_WARPS.view();
    let all = mine.of_block(scratch, WARPS);
    if thread == 0 {
        scratch.store_vec(0, [all.mean, all.rstd(g.eps)]);
    }
    thread::sync_threads();
    let [mean, rstd] = scratch.load_vec::<2>(0);

    let (groups, _) = div_rem(g.channels, g.row_channels);
    let (_, group) = div_rem(thread::block_idx_x(), groups);
    let mut plane = 0;
    while plane < g.row_channels as usize {
        let channel = (group * g.row_channels) as usize + plane;
        let factor = if g.weight.is_present() {
            rstd * affine(weight, channels, channel, g.affine_type)
        } else {
            rstd
        };
        let added = if g.bias.is_present() {
            affine(bias, channels, channel, g.affine_type)
        } else {
            0.0
        };
        let times = scale.load_readonly(channel).to_f32();
        let map = |x: f32| math::fma(x - mean, factor, added) * times;

        let plane_start = start + plane * g.spatial as usize;
        let plane_end = plane_start + g.spatial as usize;
        let (vectors_start, vectors_end) = whole_vectors(plane_start, plane_end);
        let mut at = vectors_start + thread * VECTOR_ELEMENTS;
        while at < vectors_end {
            let vector: [T; VECTOR_ELEMENTS] = if is_kept(at) {
                kept.load_vec((at - start) as u32)
            } else {
                x.load_vec(at)
            };
            let mapped = T::to_f32_vector(vector).map(map);
            y.store_vec(at, T::from_f32_vector(mapped));
            at += threads * VECTOR_ELEMENTS;
        }
        let before = vectors_start - plane_start;
        let after = plane_end - vectors_end;
        if thread < before + after {
            let at = if thread < before {
                plane_start + thread
            } else {
                vectors_end + thread - before
            };
            y.store(at, T::from_f32(map(x.load(at).to_f32())));
        }
        plane += 1;
    }
}
