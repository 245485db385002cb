//! The pointwise functions: each element by itself, wherever it stands.
//!
//! A new function is a `Function` and a kernel.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math};
use op_spec::launch::elementwise::{BLOCK_THREADS, Bounds, MIN_BLOCKS};

use crate::parts::elementwise::map_block;
use crate::parts::map::{ElementMap, clamp as clamped};

/// A function of an element alone.
trait Function {
    /// Its value.
    fn of(&self, x: f32) -> f32;
}

impl<F: Function> ElementMap for F {
    type Params = ();

    #[inline(always)]
    unsafe fn params(&self, _local: u32) {}

    #[inline(always)]
    unsafe fn in_one(&self, _local: u32, _count: u32) -> bool {
        true
    }

    #[inline(always)]
    fn apply(&self, (): (), x: f32) -> f32 {
        self.of(x)
    }
}

/// The maximum with the lower bound comes first and the minimum with the upper one second, both of the kind that keeps
/// NaN. That order is what makes the upper bound win where they cross.
impl Function for Bounds {
    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        clamped(*self, x)
    }
}

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

/// The maximum with 0, of the kind that keeps NaN.
struct Relu;

impl Function for Relu {
    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        math::max_nan(x, 0.0)
    }
}

/// A block takes the maxima of `BLOCK_ELEMENTS` consecutive elements of `x` with 0.
///
/// *Launch*, *Mapping*, *Barriers*, *Traffic*: as `clamp`.
///
/// # Safety
/// As `clamp`.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn relu<T: Storage>(x: *const T, y: *mut T, elements: u64) {
    let x = Global::new(x, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    map_block(x, y, || Relu);
}

/// What is above 0 as it is, all else, NaN included, times the slope.
struct LeakyRelu {
    negative_slope: f32,
}

impl Function for LeakyRelu {
    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        if x > 0.0 { x } else { x * self.negative_slope }
    }
}

/// A block writes `BLOCK_ELEMENTS` consecutive elements of `x` into `y`, those that are not above 0 times `negative_slope`.
///
/// *Launch*, *Mapping*, *Barriers*, *Traffic*: as `clamp`.
///
/// # Safety
/// As `clamp`.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn leaky_relu<T: Storage>(x: *const T, y: *mut T, elements: u64, negative_slope: f32) {
    let x = Global::new(x, elements as usize);
    let y = GlobalMut::new(y, elements as usize);
    map_block(x, y, || LeakyRelu { negative_slope });
}
