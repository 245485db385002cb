//! The elementwise pass after a norm's statistics: the norm, a scale before or after it or a prelu after it,
//! and a list of pointwise functions.
//!
//! It is the second pass of a norm alone, and of every chain without a maximum after its norm. It also serves
//! chains whose pool moved in front of the norm: norm and scale are monotonic, so the pool may come first if
//! it takes the right one of largest and smallest (see `implicit_gemm`). The statistics are then those of the
//! tensor before pooling, which has the same channels and rows.
//!
//! # Idea
//! A block has consecutive elements of any number of planes, enough to pay for staging the planes'
//! parameters.
//!
//! ```text
//! load the first four vectors of 16 bytes of each thread                         # 64 bytes a thread, always
//! mean, rstd of the rows that the block's planes belong to, if they are in splits; barrier # `parts::planes`
//! for each plane, a thread: [mean, rstd * weight, bias, scale or slope] -> shared memory; barrier
//! for each eight values of the thread, one vector or, in f32, two:
//!     load the vectors three or four further on
//!     y = (x - mean) * factor + bias                     # the plane's, found by a product with a reciprocal
//!     y = y * scale                                                # unless it is above where slopes end
//!     y = list(y)                                                                    # `parts::pointwise`
//! ```
//!
//! In planes of at least a vector's length, less one, a vector crosses at most one plane boundary, and the
//! elements beyond it take the next plane's parameters. In shorter planes each element finds its own.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::elementwise::{BLOCK_THREADS, MIN_BLOCKS};
use launch_config::norm::{APPLY_VALUES, ApplyGeometry};
use launch_config::pointwise::{OperandList, PointwiseList};

use crate::parts::index::NearSegments;
use crate::parts::map::PlaneMap;
use crate::parts::planes::{Behind, NormTensors, Planes};
use crate::parts::pointwise::{KeepsNothing, List, apply, apply_with_residual};
use crate::parts::unroll::unroll;

/// Elements between eight values of a thread and its next eight.
const STEP: u32 = BLOCK_THREADS * APPLY_VALUES as u32;

/// The number of resident blocks that these kernels have less than others, on architectures other than
/// Hopper: the assembler does not fit norms with lists into as few registers.
pub(crate) const ROOMY: u32 = !cfg!(hopper) as u32;

/// Eight values of a thread, as they are stored: vectors of 16 bytes, a block's width apart.
pub trait Vectors: Storage {
    /// Elements of a vector.
    const ELEMENTS: usize;

    /// Loads the vector that starts with element `at` to the first places.
    ///
    /// # Safety
    /// As for `Global::load_vec`.
    unsafe fn load(x: Global<Self>, at: usize) -> [Self; APPLY_VALUES];

    /// Stores the first places as the vector that starts with element `at`.
    ///
    /// # Safety
    /// As for `GlobalMut::store_vec`.
    unsafe fn store(y: GlobalMut<Self>, at: usize, values: [Self; APPLY_VALUES]);
}

macro_rules! halves {
    ($($T:ty)*) => {$(
        #[doc(hidden)] // The library's users see the page of the type.
        impl Vectors for $T {
            const ELEMENTS: usize = 8;

            #[inline(always)]
            unsafe fn load(x: Global<Self>, at: usize) -> [Self; APPLY_VALUES] {
                x.load_vec(at)
            }

            #[inline(always)]
            unsafe fn store(y: GlobalMut<Self>, at: usize, values: [Self; APPLY_VALUES]) {
                y.store_vec(at, values);
            }
        }
    )*};
}

halves!(f16 bf16);

impl Vectors for f32 {
    const ELEMENTS: usize = 4;

    #[inline(always)]
    unsafe fn load(x: Global<Self>, at: usize) -> [Self; APPLY_VALUES] {
        let [a, b, c, d] = x.load_vec(at);
        [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
    }

    #[inline(always)]
    unsafe fn store(y: GlobalMut<Self>, at: usize, [a, b, c, d, ..]: [Self; APPLY_VALUES]) {
        y.store_vec(at, [a, b, c, d]);
    }
}

/// A block normalises `g.block_elements` consecutive elements of `x`, applies the scales before and after the
/// norm (or a prelu after it) and the list of functions, and writes the results to `y`.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: consecutive vectors go to consecutive threads; the list is applied to eight values at a time.
/// *Barriers*: one, after the parameters of the block's planes are in shared memory, and one before it if
/// statistics are in splits.
/// *Traffic*: each element is read once and written once; the rest comes from cache.
///
/// # Safety
/// `x` and `y` have `g.elements` elements and are 16-byte aligned; `y` is `x` or does not overlap it. The
/// statistics kernel wrote `partials` for `x`, or for the tensor that `x` was pooled from. `weight` and
/// `bias`, if the geometry says that they exist, and `before` and `scale`, if they are not null, have
/// `g.norm.channels` elements. `scale` has one element if `g.factor_step` is 0; otherwise that is 1.
/// Weight and bias are f32 if the norm says so. `before` is null unless the norm's rows are channels. The
/// geometry is for elements of `T`'s size.
#[kernel(
    instances(T: [f32, f16, bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = MIN_BLOCKS - ROOMY
)]
pub unsafe fn group_norm_scale_pointwise<T: Vectors>(
    x: *const T,
    partials: *const f32,
    before: *const T,
    weight: *const T,
    bias: *const T,
    scale: *const T,
    y: *mut T,
    g: &ApplyGeometry,
    list: &PointwiseList,
) {
    let tensors = NormTensors {
        partials,
        before,
        weight,
        bias,
        scale,
        behind: Behind {
            multiplied_to: g.multiplied_to,
            step: g.factor_step,
        },
    };
    normalise_block(x, tensors, y, g, List::Functions(list));
}

/// [`fn@group_norm_scale_pointwise`] with a residual in the list. *Traffic*: each element of the residual is
/// read once, too.
///
/// # Safety
/// As for [`fn@group_norm_scale_pointwise`]. `residual` has `g.elements` elements, is 16-byte aligned and
/// does not overlap `y`.
#[kernel(
    instances(T: [f32, f16, bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = MIN_BLOCKS - 1
)]
pub unsafe fn group_norm_scale_pointwise_residual<T: Vectors>(
    x: *const T,
    partials: *const f32,
    before: *const T,
    weight: *const T,
    bias: *const T,
    scale: *const T,
    residual: *const T,
    y: *mut T,
    g: &ApplyGeometry,
    list: &OperandList,
) {
    let tensors = NormTensors {
        partials,
        before,
        weight,
        bias,
        scale,
        behind: Behind {
            multiplied_to: g.multiplied_to,
            step: g.factor_step,
        },
    };
    let residual = Global::new(residual, g.elements as usize);
    normalise_block(x, tensors, y, g, List::WithResidual(list, residual));
}

/// The body of both kernels.
#[inline(always)]
unsafe fn normalise_block<T: Vectors>(
    x: *const T,
    tensors: NormTensors<T>,
    y: *mut T,
    g: &ApplyGeometry,
    list: List<'_, T>,
) {
    let start = thread::block_idx_x() as u64 * g.block_elements as u64;
    let left = (g.elements - start).min(g.block_elements as u64) as u32;
    // Elements below `left <= g.block_elements` are the block's elements and no others.
    let x = Global::new(x, g.elements as usize).slice(start as usize, left as usize);
    let y = GlobalMut::new(y, g.elements as usize).slice(start as usize, left as usize);

    let zeros = [T::from_f32(0.0); APPLY_VALUES];
    let elements = T::ELEMENTS as u32;
    let round = BLOCK_THREADS * elements;
    let whole = left - left % elements;
    // Loads eight values of a tensor, whose first vector starts with element `at`; zeros where there is no
    // vector.
    let load_of = |x: Global<T>, at: u32| {
        let first = if at < whole {
            T::load(x, at as usize)
        } else {
            zeros
        };
        if T::ELEMENTS == APPLY_VALUES {
            return first;
        }
        let second = if at + round < whole {
            T::load(x, (at + round) as usize)
        } else {
            zeros
        };
        let ([a, b, c, d, ..], [e, f, g, h, ..]) = (first, second);
        [a, b, c, d, e, f, g, h]
    };
    let load = |at: u32| load_of(x, at);
    let thread = thread::thread_idx_x();
    let mut at = thread * elements;
    // Four vectors of any element type.
    let mut ahead = [zeros; 4];
    unroll!(4, |n| {
        if n * APPLY_VALUES < 4 * T::ELEMENTS {
            ahead[n] = load(at + n as u32 * STEP);
        }
    });

    let segments = NearSegments::from(start, g.spatial, &g.near);
    let count = segments.locate(left - 1).0 + 1;
    let planes = Planes::stage(&g.norm, tensors, segments.first, count);

    // Normalises one vector of the eight values: the values from `first` on, which start with element `at`.
    let normalise = |at: u32, first: usize, x: [f32; APPLY_VALUES]| {
        let mut values = x;
        let (plane, position) = segments.locate(at);
        let crosses = position + elements > segments.length();
        if !crosses || segments.length() >= elements - 1 {
            let params = planes.params(plane);
            unroll!(8, |i| {
                if i >= first && i < first + T::ELEMENTS {
                    values[i] = planes.apply(params, x[i]);
                }
            });
            if crosses {
                let next = planes.params(plane + 1);
                unroll!(8, |i| {
                    // The vector's first element is in the plane that was found.
                    let is_next = i > first && position + (i - first) as u32 >= segments.length();
                    if i < first + T::ELEMENTS && is_next {
                        values[i] = planes.apply(next, x[i]);
                    }
                });
            }
        } else {
            unroll!(8, |i| {
                if i >= first && i < first + T::ELEMENTS {
                    let plane = segments.locate(at + (i - first) as u32).0;
                    values[i] = planes.apply(planes.params(plane), x[i]);
                }
            });
        }
        values
    };
    while at < whole {
        let stored = ahead[0];
        if T::ELEMENTS == APPLY_VALUES {
            ahead = [ahead[1], ahead[2], ahead[3], load(at + 4 * STEP)];
        } else {
            ahead = [ahead[1], load(at + 2 * STEP), zeros, zeros];
        }
        let has_second = T::ELEMENTS < APPLY_VALUES && at + round < whole;
        let mut values = normalise(at, 0, to_f32(stored));
        if has_second {
            values = normalise(at + round, T::ELEMENTS % APPLY_VALUES, values);
        }
        let values = match list {
            List::Functions(list) => apply::<T, _>(list, values),
            List::WithResidual(list, residual) => {
                let mut added = zeros;
                if list.has_residual() {
                    let residual = residual.slice(start as usize, left as usize);
                    added = load_of(residual, at);
                }
                apply_with_residual::<T, _>(list, values, to_f32(added), KeepsNothing)
            }
        };
        let stored = from_f32::<T>(values);
        T::store(y, at as usize, stored);
        if has_second {
            let [a, b, c, d, e, f, g, h] = stored;
            T::store(y, (at + round) as usize, [e, f, g, h, a, b, c, d]);
        }
        at += STEP;
    }

    // The tensor's last elements, if they are no whole vector.
    let at = whole + thread;
    if at < left {
        let params = planes.params(segments.locate(at).0);
        let value = planes.apply(params, x.load(at as usize).to_f32());
        let [value] = match list {
            List::Functions(list) => apply::<T, _>(list, [value]),
            List::WithResidual(list, residual) => {
                let mut added = 0.0;
                if list.has_residual() {
                    added = residual.load(start as usize + at as usize).to_f32();
                }
                apply_with_residual::<T, _>(list, [value], [added], KeepsNothing)
            }
        };
        y.store(at as usize, T::from_f32(value));
    }
}

#[inline(always)]
fn to_f32<T: Storage>([a, b, c, d, e, f, g, h]: [T; APPLY_VALUES]) -> [f32; APPLY_VALUES] {
    let ([a, b, c, d], [e, f, g, h]) = (
        T::to_f32_vector([a, b, c, d]),
        T::to_f32_vector([e, f, g, h]),
    );
    [a, b, c, d, e, f, g, h]
}

#[inline(always)]
fn from_f32<T: Storage>([a, b, c, d, e, f, g, h]: [f32; APPLY_VALUES]) -> [T; APPLY_VALUES] {
    let ([a, b, c, d], [e, f, g, h]) = (
        T::from_f32_vector([a, b, c, d]),
        T::from_f32_vector([e, f, g, h]),
    );
    [a, b, c, d, e, f, g, h]
}
