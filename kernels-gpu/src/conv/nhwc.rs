//! Direct convolution of channels-last tensors with few filters.
//!
//! A thread computes all filters of two output pixels, in f32. Filters are in shared memory as
//! `[filter][tap][channel]`, so a thread reads the weights of four channels in a broadcast vector and uses
//! them for both pixels. As in `direct`, padding is multiplied as an input of 0.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, shared_array, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv_nhwc::{
    BLOCK_PIXELS, BLOCK_THREADS, ConvNhwcGeometry, MAX_FILTERS, MIN_BLOCKS, STAGED_VALUES,
    THREAD_PIXELS, VECTOR_CHANNELS,
};

use super::window::{Row, Window};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

shared_array! {
    /// All filters.
    static CONV_DIRECT_NHWC_FILTERS: [f32; STAGED_VALUES as usize];
}

/// Channels of a vector.
const CHANNELS: usize = VECTOR_CHANNELS as usize;

/// The sums of a thread.
type Sums = [[f32; MAX_FILTERS as usize]; THREAD_PIXELS];

/// Copies all filters into shared memory, channels last.
///
/// # Safety
/// All threads of the block call it; `weight` has all filters.
#[inline(always)]
unsafe fn stage_filters<T: Storage>(weight: Global<T>, g: &ConvNhwcGeometry, staged: Shared<f32>) {
    let conv = &g.conv;
    let mut value = thread::thread_idx_x();
    while value < conv.group_k * conv.reduction() {
        let (rest, channel) = div_rem(value, conv.group_c);
        let (filter, tap) = div_rem(rest, conv.taps());
        let [of_channel, of_tap] = g.filter_steps;
        let at = filter * conv.reduction() + channel * of_channel + tap * of_tap;
        staged.store(value, weight.load_readonly(at as usize).to_f32());
        value += BLOCK_THREADS;
    }
}

/// Adds the products of a vector of channels of each pixel and all filters. The first filter's weights are at
/// `at`.
///
/// # Safety
/// The filters have been written.
#[inline(always)]
unsafe fn multiply(
    sums: &mut Sums,
    values: [[f32; CHANNELS]; THREAD_PIXELS],
    staged: Shared<f32>,
    at: u32,
    (filters, reduction): (u32, u32),
) {
    unroll!(8, |k| {
        if (k as u32) < filters {
            let first = at + k as u32 * reduction;
            unroll!(2, |half| {
                let of_half = VECTOR_ELEMENTS * half;
                let weights = staged.load_vec::<VECTOR_ELEMENTS>(first + of_half as u32);
                unroll!(4, |c| {
                    unroll!(2, |i| {
                        sums[i][k] = math::fma(values[i][of_half + c], weights[c], sums[i][k]);
                    });
                });
            });
        }
    });
}

/// A block computes all filters of `BLOCK_PIXELS` consecutive output pixels of all samples, in up to three
/// dimensions.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: two pixels a thread, a block's width apart.
/// *Barriers*: one, after the copy of the filters.
/// *Traffic*: an input value is read from cache once per tap, the filters once per block; each output is
/// written once.
///
/// # Safety
/// The tensors are as large as the geometry says. `x` and `y` are contiguous NHWC and 16-byte aligned, and
/// `y` does not overlap the others. `bias` is read only if the geometry has one. Planes have less than 2^31
/// elements.
#[kernel(instances(T: [f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn conv_direct_nhwc<T: Storage>(
    x: *const T,
    weight: *const T,
    bias: *const T,
    y: *mut T,
    g: &ConvNhwcGeometry,
) {
    let conv = &g.conv;
    let staged = CONV_DIRECT_NHWC_FILTERS.view();
    let (filters, channels) = (conv.group_k, conv.group_c as usize);
    let of_sample = conv.input_pixels() as usize;
    let x = Global::new(x, conv.n as usize * of_sample * channels);
    let weights = (filters * conv.reduction()) as usize;
    stage_filters(Global::new(weight, weights), g, staged);
    thread::sync_threads();

    let first = thread::block_idx_x() * BLOCK_PIXELS + thread::thread_idx_x();
    let pixel = |i: usize| first + i as u32 * BLOCK_THREADS;
    let mut windows = [Window::UNSET; THREAD_PIXELS];
    let mut samples = [0; THREAD_PIXELS];
    unroll!(2, |i| {
        // Past the end, the last pixel is computed again and not stored.
        let (sample, pixel) = div_rem(pixel(i).min(g.pixels() - 1), conv.output_pixels());
        windows[i] = Window::of::<3>(conv, pixel);
        samples[i] = sample as usize * of_sample;
    });

    let mut sums: Sums = [[0.0; MAX_FILTERS as usize]; THREAD_PIXELS];
    let mut row = 0;
    while row < conv.t * conv.r {
        let (t, r) = div_rem(row, conv.r);
        let mut under_row = [Row::UNSET; THREAD_PIXELS];
        unroll!(2, |i| {
            under_row[i] = windows[i].row::<3>(conv, t, r);
        });
        let mut s = 0;
        while s < conv.s {
            let mut inside = [false; THREAD_PIXELS];
            let mut under = [0; THREAD_PIXELS];
            unroll!(2, |i| {
                let element = under_row[i].under(conv, s);
                inside[i] = element.is_some();
                under[i] = (samples[i] + element.unwrap_or(0) as usize) * channels;
            });
            let tap = (row * conv.s + s) * conv.group_c;
            let mut channel = 0;
            while channel < conv.group_c {
                let mut values = [[0.0; CHANNELS]; THREAD_PIXELS];
                unroll!(2, |i| {
                    if inside[i] {
                        let loaded = x.load_vec::<CHANNELS>(under[i] + channel as usize);
                        let [a, b, c, d, e, f, g, h] = loaded;
                        let ([a, b, c, d], [e, f, g, h]) = (
                            T::to_f32_vector([a, b, c, d]),
                            T::to_f32_vector([e, f, g, h]),
                        );
                        values[i] = [a, b, c, d, e, f, g, h];
                    }
                });
                let of_filter = (filters, conv.reduction());
                multiply(&mut sums, values, staged, tap + channel, of_filter);
                channel += VECTOR_CHANNELS;
            }
            s += 1;
        }
        row += 1;
    }

    let y = GlobalMut::new(y, g.pixels() as usize * filters as usize);
    if conv.bias.is_present() {
        let bias = Global::new(bias, filters as usize);
        unroll!(8, |k| {
            if (k as u32) < filters {
                let added = bias.load_readonly(k).to_f32();
                unroll!(2, |i| {
                    sums[i][k] += added;
                });
            }
        });
    }
    unroll!(2, |i| {
        if pixel(i) < g.pixels() {
            let at = pixel(i) as usize * filters as usize;
            let [a, b, c, d, ..] = sums[i];
            match filters {
                2 => y.store_vec(at, T::from_f32_pair([a, b])),
                4 => y.store_vec(at, T::from_f32_vector([a, b, c, d])),
                _ => {
                    unroll!(8, |k| {
                        if (k as u32) < filters {
                            y.store(at + k, T::from_f32(sums[i][k]));
                        }
                    });
                }
            }
        }
    });
}
