//! `copy_strided`: copies a strided array to a dense row-major one, and converts the storage type on request.
//!
//! `launch_config::copy_strided` explains how the work is divided. A block computes its start index once, one
//! axis a thread. Later positions take an addition within a row, and a multiplication by a reciprocal past
//! its end.

use core::any::TypeId;
use core::mem::transmute_copy;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::copy_strided::{
    BLOCK_ELEMENTS, BLOCK_THREADS, CopyAxis, CopyGeometry, FAR, MAX_AXES, MIN_BLOCKS,
    ROUND_ELEMENTS, TILE_WORDS, VECTORS_PER_THREAD,
};
use launch_config::reciprocal::Reciprocal;

use crate::parts::index::div_rem_u64;
use crate::parts::unroll::unroll;

// A loop indexes the axes. Kernel parameters that are indexed by a variable would be copied to each thread's
// local memory, so one thread copies each axis to shared memory instead.
shared_array! {
    /// The block's start index on each axis.
    static COPY_PLACE: [u64; MAX_AXES];
    /// Element offsets of that index in the source and in the target.
    static COPY_SOURCE: [i64; MAX_AXES];
    static COPY_TARGET: [u64; MAX_AXES];
    /// `CopyAxis::extent`, `stride` and `near` of each axis.
    static COPY_EXTENT: [u64; MAX_AXES];
    static COPY_STRIDE: [i64; MAX_AXES];
    static COPY_NEAR: [u32; 3 * MAX_AXES];
    /// The tile to transpose.
    static COPY_TILE: [f32; TILE_WORDS];
}

/// Converts an element to the target's type. If the types are equal, it keeps all bits, also of a NaN; else
/// it rounds to nearest.
#[inline(always)]
fn converted<S: Storage, T: Storage>(x: S) -> T {
    if TypeId::of::<S>() == TypeId::of::<T>() {
        // SAFETY: `S` and `T` are the same type.
        unsafe { transmute_copy(&x) }
    } else {
        T::from_f32(x.to_f32())
    }
}

/// Stores axis `k` and the block's start index on it in shared memory. The block begins with step `first`.
///
/// # Safety
/// `k < MAX_AXES`, and `axis` is axis `k` of the geometry.
#[inline(always)]
unsafe fn share_axis(axis: &CopyAxis, k: u32, first: u64) {
    let steps = div_rem_u64(first, axis.inner).0;
    let at = div_rem_u64(steps, axis.extent).1;
    COPY_PLACE.view().store(k, at);
    COPY_SOURCE.view().store(k, at as i64 * axis.stride);
    COPY_TARGET.view().store(k, at * axis.target);
    COPY_EXTENT.view().store(k, axis.extent);
    COPY_STRIDE.view().store(k, axis.stride);
    let [divisor, factor, shift] = axis.near.to_words();
    COPY_NEAR.view().store(3 * k, divisor);
    COPY_NEAR.view().store(3 * k + 1, factor);
    COPY_NEAR.view().store(3 * k + 2, shift);
}

/// A block writes up to `BLOCK_ELEMENTS` elements of `y`: consecutive ones, or a tile of the axes `g.i` and
/// `g.j`.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: rows: four vectors a thread, a block's width apart; tiles: single elements, read along `i` and
/// written along `j`.
/// *Barriers*: one, and another one for tiles.
/// *Traffic*: each element is read once and written once.
///
/// # Safety
/// `g.span` elements are readable from `g.before` elements before `x` on. `x` is aligned to an element, and
/// to four elements if `g.loads` says so. `y` has `g.elements` elements, is 16-byte aligned and does not
/// overlap the source.
#[kernel(instances(S: [f32, f16, bf16], T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn copy_strided<S: Storage, T: Storage>(x: *const S, y: *mut T, g: &CopyGeometry) {
    let x = Global::new(x.wrapping_sub(g.before as usize), g.span as usize);
    let y = GlobalMut::new(y, g.elements as usize);
    let block = thread::block_idx_x() as u64;
    let first = if !g.mode.is_tiled() {
        block * BLOCK_ELEMENTS as u64
    } else {
        block
    };
    let own = thread::thread_idx_x();
    if own < g.count {
        // Selects the axis before the division, so that all axes are divided at once.
        let mut axis = g.axes[0];
        unroll!(8, |k| {
            if own == k as u32 {
                axis = g.axes[k];
            }
        });
        share_axis(&axis, own, first);
    }
    thread::sync_threads();
    let (mut source, mut target) = (g.before as i64, 0);
    let mut k = 0;
    while k < g.count {
        source += COPY_SOURCE.view().load(k);
        target += COPY_TARGET.view().load(k);
        k += 1;
    }
    if !g.mode.is_tiled() {
        copy_rows(x, y, g, source, first as usize);
    } else {
        copy_tile(x, y, g, source as usize, target as usize);
    }
}

/// Returns the source position of the block's element `local`, and the number of elements from there to the
/// end of its row. The block's first element is at `source`.
///
/// # Safety
/// `local < BLOCK_ELEMENTS`, and the array has this element.
#[inline(always)]
unsafe fn locate(g: &CopyGeometry, source: i64, local: u32) -> (i64, u64) {
    let (mut at, mut carried, mut left) = (source, local, 0);
    let mut k = g.count;
    loop {
        k -= 1;
        let extent = COPY_EXTENT.view().load(k);
        let start = COPY_PLACE.view().load(k);
        let position = start + carried as u64;
        let (begun, index) = if position < extent {
            (0, position)
        } else if extent > FAR {
            (1, position - extent)
        } else {
            // `position` is less than `FAR` plus a block's elements.
            let near = COPY_NEAR.view();
            let words = [3 * k, 3 * k + 1, 3 * k + 2].map(|word| near.load(word));
            let near = Reciprocal::from_words(words);
            let (begun, index) = near.div_rem(position as u32, math::high_word);
            (begun, index as u64)
        };
        at += (index as i64 - start as i64) * COPY_STRIDE.view().load(k);
        if k + 1 == g.count {
            left = extent - index;
        }
        if begun == 0 || k == 0 {
            return (at, left);
        }
        carried = begun;
    }
}

/// Copies the block's elements of `y` from `first` on; `source` is the source position of the first.
///
/// # Safety
/// As for the kernel.
#[inline(always)]
unsafe fn copy_rows<S: Storage, T: Storage>(
    x: Global<S>,
    y: GlobalMut<T>,
    g: &CopyGeometry,
    source: i64,
    first: usize,
) {
    let row = g.count - 1;
    let stride = COPY_STRIDE.view().load(row);
    // Elements left in the row that the block begins in.
    let of_first = COPY_EXTENT.view().load(row) - COPY_PLACE.view().load(row);
    let left = y.len() - first;
    let thread = thread::thread_idx_x() as usize * VECTOR_ELEMENTS;
    // All vectors are loaded before the first is used. Vectors that cross rows are copied after that.
    let mut vectors = [[S::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS_PER_THREAD];
    let mut is_whole = [false; VECTORS_PER_THREAD];
    unroll!(4, |v| {
        let local = thread + v * ROUND_ELEMENTS;
        if local + VECTOR_ELEMENTS <= left {
            let (at, of_row) = if (local + VECTOR_ELEMENTS) as u64 <= of_first {
                (source + local as i64 * stride, VECTOR_ELEMENTS as u64)
            } else {
                locate(g, source, local as u32)
            };
            if of_row >= VECTOR_ELEMENTS as u64 {
                is_whole[v] = true;
                vectors[v] = if g.loads.are_vectors() {
                    x.load_vec(at as usize)
                } else {
                    [0, 1, 2, 3].map(|i| x.load((at + i * stride) as usize))
                };
            }
        }
    });
    let mut apart = 0;
    unroll!(4, |v| {
        if is_whole[v] {
            let local = thread + v * ROUND_ELEMENTS;
            y.store_vec(first + local, vectors[v].map(converted::<S, T>));
        } else {
            apart |= 1 << v;
        }
    });
    let mut v = 0;
    while apart >> v != 0 {
        let local = thread + v * ROUND_ELEMENTS;
        if apart >> v & 1 != 0 {
            let mut values = [S::from_f32(0.0); VECTOR_ELEMENTS];
            unroll!(4, |i| {
                if local + i < left {
                    let (at, _) = locate(g, source, (local + i) as u32);
                    values[i] = x.load(at as usize);
                }
            });
            unroll!(4, |i| {
                if local + i < left {
                    y.store(first + local + i, converted(values[i]));
                }
            });
        }
        v += 1;
    }
}

/// A thread's walk over the steps of a tile, a block's width at a time: an index on the fast side, one on the
/// slow side, and the two memory offsets of that position.
#[derive(Clone, Copy)]
struct Walk {
    fast: u32,
    slow: u32,
    /// Offset in global memory from the tile's first element, in elements.
    global: i64,
    /// Offset in shared memory, in elements.
    shared: u32,
}

impl Walk {
    /// The position of step `step`. `length` is the length of the fast side, and `global` and `shared` are
    /// the strides of the fast and of the slow side.
    #[inline(always)]
    fn at(step: u32, length: &Reciprocal, global: [i64; 2], shared: [u32; 2]) -> Self {
        let (slow, fast) = length.div_rem(step, math::high_word);
        Self {
            fast,
            slow,
            global: fast as i64 * global[0] + slow as i64 * global[1],
            shared: fast * shared[0] + slow * shared[1],
        }
    }

    /// Advances by `by`, the position that one round leads on from the start. `carry` is added where the fast
    /// index passes its end: it leads to the next slow index.
    #[inline(always)]
    fn go(&mut self, by: &Walk, carry: &Walk, length: u32) {
        self.fast += by.fast;
        self.slow += by.slow;
        self.global += by.global;
        self.shared = self.shared.wrapping_add(by.shared);
        if self.fast >= length {
            self.fast -= length;
            self.slow += 1;
            self.global += carry.global;
            self.shared = self.shared.wrapping_add(carry.shared);
        }
    }
}

/// The increments `by` and `carry` of [`Walk::go`].
#[inline(always)]
fn strides(length: &Reciprocal, global: [i64; 2], shared: [u32; 2]) -> [Walk; 2] {
    let by = Walk::at(BLOCK_THREADS, length, global, shared);
    let divisor = length.divisor;
    let carry = Walk {
        fast: 0,
        slow: 1,
        global: global[1] - divisor as i64 * global[0],
        shared: shared[1].wrapping_sub(divisor.wrapping_mul(shared[0])),
    };
    [by, carry]
}

/// Copies a tile whose first element is at `source` and goes to `target`.
///
/// # Safety
/// As for the kernel; all threads of the block call it.
#[inline(always)]
unsafe fn copy_tile<S: Storage, T: Storage>(
    x: Global<S>,
    y: GlobalMut<T>,
    g: &CopyGeometry,
    source: usize,
    target: usize,
) {
    let tile: Shared<S> = COPY_TILE.view().cast();
    let (i, j) = (&g.i, &g.j);
    let [lengths_i, lengths_j] = [i.length.divisor, j.length.divisor];
    // Elements left on an axis from the tile on, at most the tile's length.
    let left = |extent: u64, length: u32, axis: u32| {
        let left = extent - COPY_PLACE.view().load(axis) * length as u64;
        if left < length as u64 {
            left as u32
        } else {
            length
        }
    };
    let left_i = left(i.extent, lengths_i, g.count - 2);
    let left_j = left(j.extent, lengths_j, g.count - 1);
    let end = lengths_i * lengths_j;
    let own = thread::thread_idx_x();

    let (global, shared) = ([i.stride, j.stride], [i.shared, j.shared]);
    let [by, carry] = strides(&i.length, global, shared);
    let mut walk = Walk::at(own, &i.length, global, shared);
    let mut step = own;
    while step < end {
        let mut values = [S::from_f32(0.0); 8];
        let mut places = [0; 8];
        unroll!(8, |n| {
            // Past the tile's end, `slow` is past the end of its side.
            if walk.fast < left_i && walk.slow < left_j {
                values[n] = x.load((source as i64 + walk.global) as usize);
            }
            places[n] = if walk.slow < lengths_j {
                walk.shared
            } else {
                u32::MAX
            };
            walk.go(&by, &carry, lengths_i);
        });
        unroll!(8, |n| {
            if places[n] != u32::MAX {
                tile.store(places[n], values[n]);
            }
        });
        step += 8 * BLOCK_THREADS;
    }
    thread::sync_threads();
    let (global, shared) = ([1, i.target as i64], [j.shared, i.shared]);
    let [by, carry] = strides(&j.length, global, shared);
    let mut walk = Walk::at(own, &j.length, global, shared);
    let mut step = own;
    while step < end {
        let mut values = [S::from_f32(0.0); 4];
        let mut places = [i64::MIN; 4];
        unroll!(4, |n| {
            if walk.fast < left_j && walk.slow < left_i {
                values[n] = tile.load(walk.shared);
                places[n] = walk.global;
            }
            walk.go(&by, &carry, lengths_j);
        });
        unroll!(4, |n| {
            if places[n] != i64::MIN {
                y.store(target + places[n] as usize, converted(values[n]));
            }
        });
        step += 4 * BLOCK_THREADS;
    }
}
