//! `copy_rows`: copies the same range of elements of each row of a dense tensor into the rows of another.
//!
//! `launch_config::copy_rows` defines rows and units. A block divides once, for its first unit, and locates
//! the others with the reciprocal of a row's units. Values are copied bit by bit.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::copy_rows::{
    BLOCK_THREADS, BLOCK_UNITS, MIN_BLOCKS, RowsGeometry, RowsOf, UNITS_PER_THREAD,
};

use crate::parts::index::NearSegments;
use crate::parts::unroll::unroll;

/// A block copies `BLOCK_UNITS` consecutive units of the copied ranges. A unit is an element or a vector.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: four units a thread, a block's width apart. A thread loads all of them before it stores the
/// first.
/// *Barriers*: none.
/// *Traffic*: each copied element is read once and written once.
///
/// # Safety
/// `x` has `g.rows` rows of `g.source.pitch` elements, `y` as many of `g.target.pitch`. Both are
/// vector-aligned if units are vectors, and they do not overlap. The copied ranges lie inside the rows and
/// are not empty. `g.near` is the reciprocal of `min(g.row_units, FAR)`.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn copy_rows<T: Storage>(x: *const T, y: *mut T, g: &RowsGeometry) {
    let x = Global::new(x, (g.rows * g.source.pitch) as usize);
    let y = GlobalMut::new(y, (g.rows * g.target.pitch) as usize);
    let start = thread::block_idx_x() as u64 * BLOCK_UNITS as u64;
    let left = g.units() - start;
    let segments = NearSegments::from(start, g.row_units, &g.near);
    let thread = thread::thread_idx_x();
    // The first element of unit `local` of the block.
    let at = |of: &RowsOf, local: u32| {
        let (rows, unit) = segments.position(local);
        let row = (segments.first + rows as u64) * of.pitch;
        (row + of.start + unit * g.unit_elements as u64) as usize
    };
    let is_inside = |local: u32| (local as u64) < left;
    if g.unit_elements == 1 {
        let mut values = [T::from_f32(0.0); UNITS_PER_THREAD];
        unroll!(4, |v| {
            let local = thread + v as u32 * BLOCK_THREADS;
            if is_inside(local) {
                values[v] = x.load(at(&g.source, local));
            }
        });
        unroll!(4, |v| {
            let local = thread + v as u32 * BLOCK_THREADS;
            if is_inside(local) {
                y.store(at(&g.target, local), values[v]);
            }
        });
    } else {
        let mut values = [[T::from_f32(0.0); VECTOR_ELEMENTS]; UNITS_PER_THREAD];
        unroll!(4, |v| {
            let local = thread + v as u32 * BLOCK_THREADS;
            if is_inside(local) {
                values[v] = x.load_vec(at(&g.source, local));
            }
        });
        unroll!(4, |v| {
            let local = thread + v as u32 * BLOCK_THREADS;
            if is_inside(local) {
                y.store_vec(at(&g.target, local), values[v]);
            }
        });
    }
}
