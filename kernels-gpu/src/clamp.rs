//! `clamp`: each element is brought between two bounds.
//!
//! The maximum with the lower bound comes first and the minimum with the upper one second, both of
//! the kind that keeps NaN. That order is what makes the upper bound win where they cross.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel};
use op_spec::launch::elementwise::{BLOCK_THREADS, Bounds, MIN_BLOCKS};

use crate::parts::elementwise::map_block;

/// A block clamps `BLOCK_ELEMENTS` consecutive elements of `x` into `y`.
///
/// *Launch*: `elementwise::shape(elements)`.
/// *Mapping*: four vectors a thread, a block's width apart.
/// *Barriers*: none.
/// *Traffic*: each element is read once and written once.
///
/// # Safety
/// `x` and `y` have `elements` elements and start on 16 bytes; `y` is `x` or apart from it.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn clamp<T: Storage>(x: *const T, y: *mut T, elements: u64, bounds: Bounds) {
    let x = Global::new(x, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    map_block(x, y, || bounds);
}
