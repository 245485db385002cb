//! Pools whose windows are parts of rows and overlap: the maximum or the average of each window.
//!
//! A block loads the elements of its outputs' windows to shared memory once. Padding becomes the reduction's
//! identity there, so no element is tested against bounds. Results are bit-identical to those of
//! [`fn@super::pool`].

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::{self, Shared};
use cuda_std::{Storage, bf16, f16, kernel, opaque, thread};
use launch_config::pool::WindowResult;
use launch_config::pool_rows::{
    BLOCK_THREADS, MIN_BLOCKS, OUTPUTS_PER_THREAD, PoolRowsGeometry, SEGMENT,
};

use super::{Reduction, divisor};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// A block reduces the windows of a segment of a row.
///
/// *Launch*: `g.shape()`. *Mapping*: neighbouring threads have neighbouring columns, and each has eight, a
/// block's width apart. *Barriers*: one, behind the stores to shared memory. *Traffic*: each element is read
/// once, and the first ones of a segment again; each output is written once.
///
/// # Safety
/// `x` has `g.windows.planes` planes of the extents `g.windows.input`, `y` as many of `g.windows.output`, and
/// they do not overlap. The extents are positive, and padded rows have less than 2^31 elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn pool_rows<T: Storage>(x: *const T, y: *mut T, g: &PoolRowsGeometry) {
    let of = &g.windows;
    let reduction = Reduction::of(of);
    let thread = thread::thread_idx_x();
    let (row, segment) = div_rem(thread::block_idx_x(), g.segments);
    let first = segment * SEGMENT;
    let [columns, outputs] = [of.input[2], of.output[2]];
    let x = Global::new(
        x.wrapping_add(row as usize * columns as usize),
        columns as usize,
    );
    let y = GlobalMut::new(
        y.wrapping_add(row as usize * outputs as usize),
        outputs as usize,
    );
    let staged = shared::dynamic::<f32>(0, g.staged);

    // The column of the first element; a negative one, in the padding, wraps around.
    let column = (first * of.stride[2]).wrapping_sub(of.padding[2]);
    let mut element = thread;
    while element < g.staged {
        opaque::not_unrolled();
        // All loads are issued before the first store waits for one.
        let nth = |i: usize| element + i as u32 * BLOCK_THREADS;
        let mut values = [reduction.none(); OUTPUTS_PER_THREAD];
        unroll!(8, |i| {
            let column = column.wrapping_add(nth(i));
            if nth(i) < g.staged && column < columns {
                values[i] = x.load(column as usize).to_f32();
            }
        });
        unroll!(8, |i| {
            if nth(i) < g.staged {
                staged.store(nth(i), values[i]);
            }
        });
        element += SEGMENT;
    }
    thread::sync_threads();

    // With a known stride, the distances between a thread's windows are part of the instructions, and the
    // loop of a known reduction does not select.
    let known = |is_maximum: bool| {
        let reduction = Reduction { is_maximum };
        match of.stride[2] {
            1 => windows(g, staged, reduction, 1),
            stride => windows(g, staged, reduction, stride),
        }
    };
    let results = match reduction.is_maximum {
        true => known(true),
        false => known(false),
    };
    // Windows that are wholly in the input have one divisor, and a division by a power of two is a product.
    let whole = match of.result {
        WindowResult::Divided => of.divisor,
        _ => of.kernel[2] as f32,
    };
    let is_product = whole.to_bits() & ((1 << (f32::MANTISSA_DIGITS - 1)) - 1) == 0;
    let inverse = 1.0 / whole;
    let last = columns.wrapping_sub(of.kernel[2]);
    unroll!(8, |i| {
        let q = first + thread + i as u32 * BLOCK_THREADS;
        if q < outputs {
            // Windows in front of the input wrap around. All divisors may be given.
            let start = (q * of.stride[2]).wrapping_sub(of.padding[2]);
            let is_whole = of.kernel[2] <= columns && start <= last;
            let result = if is_product && (is_whole || of.result == WindowResult::Divided) {
                results[i] * inverse
            } else {
                results[i] / divisor(of, [0, 0, q])
            };
            let result = if reduction.is_maximum {
                results[i]
            } else {
                result
            };
            y.store(q as usize, T::from_f32(result));
        }
    });
}

/// Reduces the thread's windows, whose elements are in shared memory.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
unsafe fn windows(
    g: &PoolRowsGeometry,
    staged: Shared<f32>,
    reduction: Reduction,
    stride: u32,
) -> [f32; OUTPUTS_PER_THREAD] {
    let mut results = [reduction.none(); OUTPUTS_PER_THREAD];
    let mut at = thread::thread_idx_x() * stride;
    let mut tap = 0;
    while tap < g.windows.kernel[2] {
        opaque::not_unrolled();
        let mut values = results;
        unroll!(8, |i| {
            values[i] = staged.load(at + i as u32 * BLOCK_THREADS * stride);
        });
        unroll!(8, |i| {
            results[i] = reduction.and(results[i], values[i]);
        });
        at += g.windows.dilation[2];
        tap += 1;
    }
    results
}
const _: () = assert!(OUTPUTS_PER_THREAD == 8);
