//! `copy_strided`: any array in memory, written dense and row-major, and in another storage type where one is wanted.
//!
//! `op_spec::launch::copy_strided` says how the work is divided and why. A block finds its place once, one axis a thread, and
//! counts on from there: within a row a position is an addition, past its end a product with a reciprocal.

use core::any::TypeId;
use core::mem::transmute_copy;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread};
use op_spec::launch::VECTOR_ELEMENTS;
use op_spec::launch::copy_strided::{
    BLOCK_ELEMENTS, BLOCK_THREADS, CopyAxis, CopyGeometry, FAR, MAX_AXES, MIN_BLOCKS,
    ROUND_ELEMENTS, TILE_WORDS, VECTORS_PER_THREAD,
};

use crate::parts::index::div_rem_u64;
use crate::parts::unroll::unroll;

shared_array! {
    /// Where the block begins: an index for each axis.
    static COPY_PLACE: [u64; MAX_AXES];
    /// A tile on its way.
    static COPY_TILE: [f32; TILE_WORDS];
}

/// The element in the target's type: its own bits if that is the source's, also those of a NaN, else rounded to nearest.
#[inline(always)]
fn converted<S: Storage, T: Storage>(x: S) -> T {
    if TypeId::of::<S>() == TypeId::of::<T>() {
        // SAFETY: the same type.
        unsafe { transmute_copy(&x) }
    } else {
        T::from_f32(x.to_f32())
    }
}

/// Axis number `k`.
///
/// # Safety
/// `k < MAX_AXES`.
#[inline(always)]
unsafe fn axis(g: &CopyGeometry, k: u32) -> &CopyAxis {
    g.axes.get_unchecked(k as usize)
}

/// A block writes up to `BLOCK_ELEMENTS` elements of `y`: consecutive ones, or a tile of the axes `g.i` and `g.j`.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: of rows four vectors a thread, a block's width apart; of tiles single elements, along `i` where
/// they are read, along `j` where they are written.
/// *Barriers*: one, and another one for tiles.
/// *Traffic*: each element is read once and written once.
///
/// # Safety
/// From `g.before` elements before `x` on, `g.span` elements are readable; `x` starts on an element, and on
/// four of them if `g.has_vectors`. `y` has `g.elements` elements, starts on 16 bytes, and is apart from them.
#[kernel(instances(S: [f32, f16, bf16], T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn copy_strided<S: Storage, T: Storage>(x: *const S, y: *mut T, g: &CopyGeometry) {
    let x = Global::new(x.wrapping_sub(g.before as usize), g.span as usize);
    let y = GlobalMut::new(y, g.elements as usize);
    let place = COPY_PLACE.view();
    let block = thread::block_idx_x() as u64;
    let first = if g.is_tiled == 0 {
        block * BLOCK_ELEMENTS as u64
    } else {
        block
    };
    let own = thread::thread_idx_x();
    if own < g.count {
        let axis = axis(g, own);
        let steps = div_rem_u64(first, axis.inner).0;
        place.store(own, div_rem_u64(steps, axis.extent).1);
    }
    thread::sync_threads();
    let (mut source, mut target) = (g.before as i64, 0);
    let mut k = 0;
    while k < g.count {
        let axis = axis(g, k);
        let at = place.load(k);
        source += at as i64 * axis.stride;
        target += at * axis.target;
        k += 1;
    }
    if g.is_tiled == 0 {
        copy_rows(x, y, g, source, first as usize);
    } else {
        copy_tile(x, y, g, source as usize, target as usize);
    }
}

/// Where the source has the block's element `local`, and how many elements of its row are left, itself included. The block's
/// first element is at `source`.
///
/// # Safety
/// `local < BLOCK_ELEMENTS`, and the array has that element.
#[inline(always)]
unsafe fn locate(g: &CopyGeometry, source: i64, local: u32) -> (i64, u64) {
    let place = COPY_PLACE.view();
    let (mut at, mut carried, mut left) = (source, local, 0);
    let mut k = g.count;
    loop {
        k -= 1;
        let axis = axis(g, k);
        let start = place.load(k);
        let position = start + carried as u64;
        let (begun, index) = if position < axis.extent {
            (0, position)
        } else if axis.extent > FAR {
            (1, position - axis.extent)
        } else {
            // Less than FAR and a block together.
            let (begun, index) = axis.near.div_rem(position as u32, math::high_word);
            (begun, index as u64)
        };
        at += (index as i64 - start as i64) * axis.stride;
        if k + 1 == g.count {
            left = axis.extent - index;
        }
        if begun == 0 || k == 0 {
            return (at, left);
        }
        carried = begun;
    }
}

/// Copies the elements of `y` from `first` on, of which `source` has the first.
///
/// # Safety
/// That of the kernel.
#[inline(always)]
unsafe fn copy_rows<S: Storage, T: Storage>(
    x: Global<S>,
    y: GlobalMut<T>,
    g: &CopyGeometry,
    source: i64,
    first: usize,
) {
    let stride = axis(g, g.count - 1).stride;
    let left = y.len() - first;
    let mut local = thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    let mut round = 0;
    while round < VECTORS_PER_THREAD && local < left {
        let (at, of_row) = locate(g, source, local as u32);
        if local + VECTOR_ELEMENTS <= left && of_row >= VECTOR_ELEMENTS as u64 {
            let vector = if g.has_vectors != 0 {
                x.load_vec(at as usize)
            } else {
                [0, 1, 2, 3].map(|i| x.load((at + i * stride) as usize))
            };
            y.store_vec(first + local, vector.map(converted::<S, T>));
        } else {
            let end = left.min(local + VECTOR_ELEMENTS);
            let mut each = local;
            while each < end {
                let (at, _) = locate(g, source, each as u32);
                y.store(first + each, converted(x.load(at as usize)));
                each += 1;
            }
        }
        local += ROUND_ELEMENTS;
        round += 1;
    }
}

/// Copies a tile, whose first element `source` and `target` have.
///
/// # Safety
/// That of the kernel; all threads of the block call it.
#[inline(always)]
unsafe fn copy_tile<S: Storage, T: Storage>(
    x: Global<S>,
    y: GlobalMut<T>,
    g: &CopyGeometry,
    source: usize,
    target: usize,
) {
    let tile: Shared<S> = COPY_TILE.view().cast();
    let place = COPY_PLACE.view();
    let (i, j) = (&g.i, &g.j);
    let [lengths_i, lengths_j] = [i.length.divisor, j.length.divisor];
    // What is left of each axis from the tile on.
    let left_i = i.extent - place.load(g.count - 2) * lengths_i as u64;
    let left_j = j.extent - place.load(g.count - 1) * lengths_j as u64;
    let end = lengths_i * lengths_j;
    let mut step = thread::thread_idx_x();
    while step < end {
        let mut values = [S::from_f32(0.0); 4];
        unroll!(4, |n| {
            let step = step + n as u32 * BLOCK_THREADS;
            let (at_j, at_i) = i.length.div_rem(step, math::high_word);
            if step < end && (at_i as u64) < left_i && (at_j as u64) < left_j {
                let offset = at_i as i64 * i.stride + at_j as i64 * j.stride;
                values[n] = x.load((source as i64 + offset) as usize);
            }
        });
        unroll!(4, |n| {
            let step = step + n as u32 * BLOCK_THREADS;
            let (at_j, at_i) = i.length.div_rem(step, math::high_word);
            if step < end {
                tile.store(at_i * i.shared + at_j * j.shared, values[n]);
            }
        });
        step += 4 * BLOCK_THREADS;
    }
    thread::sync_threads();
    let mut step = thread::thread_idx_x();
    while step < end {
        let (at_i, at_j) = j.length.div_rem(step, math::high_word);
        if (at_i as u64) < left_i && (at_j as u64) < left_j {
            let value = tile.load(at_i * i.shared + at_j * j.shared);
            y.store(
                target + at_i as usize * i.target as usize + at_j as usize,
                converted(value),
            );
        }
        step += BLOCK_THREADS;
    }
}
