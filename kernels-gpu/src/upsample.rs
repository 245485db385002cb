//! Upsampling: the nearest value, or linear interpolation along up to three axes.
//!
//! `launch_config::upsample` defines a unit. Interpolation goes along the columns first, then along the rows
//! and the slices, each step as `fma(b, weight, a * (1 - weight))`, in f32. A value with weight 0 is also
//! loaded and multiplied, so NaN and infinities next to a position give NaN, as in PyTorch.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::upsample::{
    BLOCK_THREADS, BLOCK_UNITS, MIN_BLOCKS, UNITS_PER_THREAD, UpsampleGeometry,
};

use crate::parts::index::NearSegments;
use crate::parts::unroll::unroll;

/// A block computes `BLOCK_UNITS` consecutive values of the output.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: four values a thread, a block's width apart. In nearest mode, a thread loads all of them before
/// it stores the first.
/// *Barriers*: none.
/// *Traffic*: each value of the input is read about once from memory, and from cache once for each output
/// that needs it; each output is written once.
///
/// # Safety
/// `x` has `g.planes` planes of the extents `g.input`, `y` as many of `g.output`, and they do not overlap.
/// The extents are positive, planes have less than 2^31 elements, `g.pixel_units` is 1, and `g` is planned.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn upsample<T: Storage>(x: *const T, y: *mut T, g: &UpsampleGeometry) {
    let x = Global::new(x, (g.planes * g.input_units()) as usize);
    let y = GlobalMut::new(y, (g.planes * g.plane_units()) as usize);
    of_units(
        g,
        |unit| [x.load(unit).to_f32()],
        |unit, [value]| y.store(unit, T::from_f32(value)),
    );
}

/// [`fn@upsample`] of channels-last tensors. A block computes `BLOCK_UNITS` consecutive vectors of channels.
///
/// *Launch*, *Mapping*, *Barriers*, *Traffic*: as for [`fn@upsample`], with vectors.
///
/// # Safety
/// As for [`fn@upsample`], except that `x` and `y` are channels last, have `g.pixel_units` vectors of
/// channels a pixel and are 16-byte aligned. Samples have less than 2^31 vectors.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn upsample_nhwc<T: Storage>(x: *const T, y: *mut T, g: &UpsampleGeometry) {
    let elements = |units: u64| (g.planes * units) as usize * VECTOR_ELEMENTS;
    let x = Global::new(x, elements(g.input_units()));
    let y = GlobalMut::new(y, elements(g.plane_units()));
    of_units(
        g,
        |unit| T::to_f32_vector(x.load_vec(unit * VECTOR_ELEMENTS)),
        |unit, values: [f32; VECTOR_ELEMENTS]| {
            y.store_vec(unit * VECTOR_ELEMENTS, T::from_f32_vector(values));
        },
    );
}

/// A unit of the output: the first input unit of its plane, its index among the pixel's units, and its depth,
/// row and column.
#[derive(Clone, Copy)]
struct Place {
    plane: usize,
    unit: u32,
    at: [u32; 3],
}

/// Computes the block's units of `V` values each.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn of_units<const V: usize>(
    g: &UpsampleGeometry,
    load: impl Fn(usize) -> [f32; V] + Copy,
    store: impl Fn(usize, [f32; V]),
) {
    let start = thread::block_idx_x() as u64 * BLOCK_UNITS as u64;
    let left = g.planes * g.plane_units() - start;
    let segments = NearSegments::from(start, g.plane_units(), &g.near);
    let thread = thread::thread_idx_x();
    let is_inside = |local: u32| (local as u64) < left;
    let locate = |local: u32| {
        let (plane, position) = segments.position(local);
        // A plane has less than 2^31 units.
        let (pixel, unit) = g.pixel.div_rem(position as u32, math::high_word);
        let (row, q) = g.columns.div_rem(pixel, math::high_word);
        let (z, p) = g.rows.div_rem(row, math::high_word);
        Place {
            plane: (segments.first + plane as u64) as usize * g.input_units() as usize,
            unit,
            at: [z, p, q],
        }
    };
    if g.taps[2] == 1 {
        let mut values = [[0.0; V]; UNITS_PER_THREAD];
        unroll!(4, |o| {
            let local = thread + o as u32 * BLOCK_THREADS;
            if is_inside(local) {
                let place = locate(local);
                let mut source = [0; 3];
                unroll!(3, |axis| {
                    source[axis] = g.axes[axis].source(place.at[axis], g.input[axis]).0;
                });
                values[o] = load(unit_of(g, &place, source));
            }
        });
        unroll!(4, |o| {
            let local = thread + o as u32 * BLOCK_THREADS;
            if is_inside(local) {
                store((start + local as u64) as usize, values[o]);
            }
        });
        return;
    }
    let mut local = thread;
    while local < BLOCK_UNITS && is_inside(local) {
        let value = interpolated(g, &locate(local), load);
        store((start + local as u64) as usize, value);
        local += BLOCK_THREADS;
    }
}

/// The index of the input unit at a depth, row and column of the place's plane.
#[inline(always)]
fn unit_of(g: &UpsampleGeometry, place: &Place, [d, h, w]: [u32; 3]) -> usize {
    let pixel = (d * g.input[1] + h) * g.input[2] + w;
    place.plane + (pixel * g.pixel_units + place.unit) as usize
}

/// Interpolates linearly between two units.
#[inline(always)]
fn between<const V: usize>(a: [f32; V], b: [f32; V], weight: f32) -> [f32; V] {
    let mut y = a;
    let mut i = 0;
    while i < V {
        y[i] = math::fma(b[i], weight, a[i] * (1.0 - weight));
        i += 1;
    }
    y
}

/// Interpolates an output unit from up to eight input units.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn interpolated<const V: usize>(
    g: &UpsampleGeometry,
    place: &Place,
    load: impl Fn(usize) -> [f32; V],
) -> [f32; V] {
    let mut first = [0; 3];
    let mut weight = [0.0; 3];
    unroll!(3, |axis| {
        (first[axis], weight[axis]) = g.axes[axis].source(place.at[axis], g.input[axis]);
    });
    // The neighbour of the last value is that value itself.
    let behind = |axis: usize| {
        let next = first[axis] + 1;
        if next < g.input[axis] {
            next
        } else {
            first[axis]
        }
    };
    let row = |d: u32, h: u32| {
        let a = load(unit_of(g, place, [d, h, first[2]]));
        let b = load(unit_of(g, place, [d, h, behind(2)]));
        between(a, b, weight[2])
    };
    let slice = |d: u32| {
        let a = row(d, first[1]);
        if g.taps[1] == 1 {
            return a;
        }
        between(a, row(d, behind(1)), weight[1])
    };
    let a = slice(first[0]);
    if g.taps[0] == 1 {
        return a;
    }
    between(a, slice(behind(0)), weight[0])
}
