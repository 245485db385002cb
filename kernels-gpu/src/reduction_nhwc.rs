//! Reductions over the pixels of channels-last tensors: one value for each channel of a sample.
//!
//! A thread has the same channels in all of its pixels, so threads exchange nothing before their last pixel.
//! One kernel serves all operations, which differ only in a few instructions after the loads.
//! `launch_config::reduction_nhwc` defines how threads are spread.
//!
//! ```text
//! for each four pixels of the thread:  all = all and ((p0 and p1) and (p2 and p3))     # for each channel
//! shared[lane][channel] = all                                                          # barrier
//! a thread for each channel:           y = result of shared[0..lanes][channel]
//! ```

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, shared_array, thread};
use launch_config::reduction_nhwc::{
    LOADS, MAX_BLOCK_THREADS, MIN_BLOCKS, PixelOperation, ReductionNhwcGeometry,
};
use launch_config::{ElementType, VECTOR_ELEMENTS};

use crate::parts::index::div_rem;
use crate::parts::nhwc::Vector;
use crate::parts::reduction_operations::{Max, Min, ReductionOperation, Sum};
use crate::parts::unroll::unroll;

shared_array! {
    /// Partial results of the block's threads, as `[lane][channel]`.
    static REDUCTION_NHWC_LANES: [f32; MAX_BLOCK_THREADS as usize * VECTOR_ELEMENTS];
}

/// Combines `all` and four vectors by `O`.
#[inline(always)]
fn with_four<O: ReductionOperation<State = f32>>(
    mut all: Vector,
    of: &[Vector; LOADS as usize],
) -> Vector {
    unroll!(4, |c| {
        let pairs = [O::and(of[0][c], of[1][c]), O::and(of[2][c], of[3][c])];
        all[c] = O::and(all[c], O::and(pairs[0], pairs[1]));
    });
    all
}

/// [`with_four`] for an operation that is known at run time.
#[inline(always)]
fn and_four(operation: PixelOperation, all: Vector, of: &[Vector; LOADS as usize]) -> Vector {
    match operation {
        PixelOperation::Sum => with_four::<Sum>(all, of),
        PixelOperation::Max => with_four::<Max>(all, of),
        PixelOperation::Min => with_four::<Min>(all, of),
    }
}

/// A block reduces its channels over a part of a sample's pixels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: neighbouring threads have neighbouring vectors of channels, then neighbouring pixels. At the
/// end, one thread combines each channel.
/// *Barriers*: one.
/// *Traffic*: each element is read once, each result written once.
///
/// # Safety
/// `x` is channels last, has `g.elements()` elements and is 16-byte aligned; `y` has `g.results()` elements
/// of the type `g.output`. They do not overlap.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = MAX_BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn reduction_nhwc<T: Storage>(x: *const T, y: *mut T, g: &ReductionNhwcGeometry) {
    let x = Global::new(x, g.elements() as usize);
    let (block, of_channels) = div_rem(thread::block_idx_x(), g.channel_blocks);
    let (sample, part) = div_rem(block, g.parts);
    let thread = thread::thread_idx_x();
    let (lane, vector) = div_rem(thread, g.block_vectors);
    let block_channels = g.block_vectors * VECTOR_ELEMENTS as u32;
    let first_channel = of_channels * block_channels;
    let channel = first_channel + vector * VECTOR_ELEMENTS as u32;
    let none = g.none;

    let mut all = [none; VECTOR_ELEMENTS];
    if channel < g.channels {
        let first = part * g.part_pixels;
        // Less than 2^32: both are less than 2^31.
        let end = (first + g.part_pixels).min(g.pixels);
        let before = sample as usize * g.pixels as usize;
        let mut pixel = first + lane;
        while pixel < end {
            // Loads after the last pixel repeat it and are dropped.
            let mut loaded = [[T::from_f32(0.0); VECTOR_ELEMENTS]; LOADS as usize];
            unroll!(4, |i| {
                let of = (pixel + i as u32 * g.lanes).min(end - 1);
                let at = (before + of as usize) * g.channels as usize + channel as usize;
                loaded[i] = x.load_vec(at);
            });
            let mut values = [[none; VECTOR_ELEMENTS]; LOADS as usize];
            unroll!(4, |i| {
                let of_pixel = T::to_f32_vector(loaded[i]);
                let is_pixel = pixel + (i as u32) * g.lanes < end;
                unroll!(4, |c| {
                    values[i][c] = if is_pixel { of_pixel[c] } else { none };
                });
            });
            all = and_four(g.operation, all, &values);
            pixel += LOADS * g.lanes;
        }
    }
    let shared = REDUCTION_NHWC_LANES.view();
    shared.store_vec(thread * VECTOR_ELEMENTS as u32, all);
    thread::sync_threads();

    let channel = first_channel + thread;
    if thread >= block_channels || channel >= g.channels {
        return;
    }
    // Four lanes at a time; only element 0 of each vector is used.
    let mut result = [none; VECTOR_ELEMENTS];
    let mut lane = 0;
    while lane < g.lanes {
        let mut values = [[none; VECTOR_ELEMENTS]; LOADS as usize];
        unroll!(4, |i| {
            if lane + (i as u32) < g.lanes {
                values[i][0] = shared.load((lane + i as u32) * block_channels + thread);
            }
        });
        result = and_four(g.operation, result, &values);
        lane += LOADS;
    }
    // For maximum and minimum the divisor is 1, which changes no bit.
    let result = result[0] / g.divisor;
    let len = g.results() as usize;
    let row = sample as usize * g.parts as usize + part as usize;
    let at = row * g.channels as usize + channel as usize;
    match g.output {
        ElementType::F32 => GlobalMut::new(y.cast::<f32>(), len).store(at, result),
        ElementType::F16 => GlobalMut::new(y.cast::<f16>(), len).store(at, f16::from_f32(result)),
        _ => GlobalMut::new(y.cast::<bf16>(), len).store(at, bf16::from_f32(result)),
    }
}
const _: () = assert!(VECTOR_ELEMENTS == 4 && LOADS == 4);
