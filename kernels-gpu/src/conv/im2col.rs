//! The column matrix of a convolution: each output pixel's window as a column.
//!
//! Row `channel * taps + tap` holds, for every pixel of the chunk, the input value under that tap.
//! A thread makes a vector of pixels for every tap of one channel, so windows are worked out once;
//! neighbouring taps find their input in L1. Padding, and the pixels that fill the pitch up to
//! whole vectors, are zeros.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::thread;
use cuda_std::{Storage, bf16, f16, kernel};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv::ConvGeometry;
use launch_config::conv_gemm::{Chunk, IM2COL_THREADS};

use super::window::{Row, Window};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// A block writes `IM2COL_THREADS` vectors of pixels of all taps of one input channel.
///
/// *Launch*: `chunk.im2col_shape(g)`.
/// *Mapping*: one vector of pixels a thread, for one tap after the other.
/// *Barriers*: none.
/// *Traffic*: each column element is written once; its input comes from cache.
///
/// # Safety
/// `x` is as large as the geometry says, `columns` as large as the chunk says; `columns`
/// starts on 16 bytes and is apart from `x`; planes have less than 2^31 elements.
#[kernel(instances(D: [2, 3], T: [f32, f16, bf16]), max_threads = IM2COL_THREADS)]
pub unsafe fn conv_im2col<T: Storage, const D: usize>(
    x: *const T,
    columns: *mut T,
    g: &ConvGeometry,
    chunk: Chunk,
) {
    let channels = g.input_channels();
    let input_pixels = g.input_pixels() as usize;
    let pitch = chunk.pitch as usize;
    let sample_rows = channels as usize * g.taps() as usize;
    let x = Global::new(x, g.n as usize * channels as usize * input_pixels);
    let columns = GlobalMut::new(columns, chunk.samples as usize * sample_rows * pitch);

    let vectors = chunk.pitch / VECTOR_ELEMENTS as u32;
    let (rest, vector_tile) = div_rem(thread::block_idx_x(), vectors.div_ceil(IM2COL_THREADS));
    let (sample, channel) = div_rem(rest, channels);
    let vector = vector_tile * IM2COL_THREADS + thread::thread_idx_x();
    if vector >= vectors {
        return;
    }
    let first = vector * VECTOR_ELEMENTS as u32;
    let mut windows = [Window::UNSET; VECTOR_ELEMENTS];
    unroll!(4, |i| {
        let pixel = chunk.first_pixel + (first + i as u32).min(chunk.pixels - 1);
        windows[i] = Window::of::<D>(g, pixel);
    });

    let sample_in_batch = (chunk.first_sample + sample as u64) as usize;
    let plane = (sample_in_batch * channels as usize + channel as usize) * input_pixels;
    let first_row = sample as usize * sample_rows + channel as usize * g.taps() as usize;
    let mut at = first_row * pitch + first as usize;
    let mut row = 0;
    while row < g.t * g.r {
        let (t, r) = if D == 3 { div_rem(row, g.r) } else { (0, row) };
        let mut rows = [Row::UNSET; VECTOR_ELEMENTS];
        unroll!(4, |i| {
            rows[i] = windows[i].row::<D>(g, t, r);
        });
        let mut s = 0;
        while s < g.s {
            let mut values = [T::from_f32(0.0); VECTOR_ELEMENTS];
            unroll!(4, |i| {
                let under = rows[i].under(g, s);
                let value = x.load(plane + under.unwrap_or(0) as usize);
                if under.is_some() && first + (i as u32) < chunk.pixels {
                    values[i] = value;
                }
            });
            columns.store_vec(at, values);
            at += pitch;
            s += 1;
        }
        row += 1;
    }
}
