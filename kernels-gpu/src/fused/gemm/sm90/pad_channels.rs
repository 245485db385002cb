//! Copies of tensors with more channels and columns, so that the lines of a matrix product are whole vectors.

use core::mem::transmute_copy;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::gemm::{PAD_THREADS, PadChannelsGeometry, VECTOR_VALUES};

use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// A block writes consecutive vectors of a row of `y`: the values of `x`, and zeros where it has none.
///
/// *Launch*: `g.shape()`. *Mapping*: eight values a thread. *Barriers*: none. *Traffic*: each element
/// of `y` is written once, each of `x` read once.
///
/// # Safety
/// `x` has `g.source_elements()` at the strides of `g`. `y` has `g.elements()` and is 16-byte aligned. The
/// two do not overlap.
#[kernel(
    instances(T: [f16, bf16]),
    instances(T: [f32]),
    max_threads = PAD_THREADS,
    min_blocks = 8
)]
pub unsafe fn gemm_pad_channels<T: Storage>(x: *const T, y: *mut T, g: &PadChannelsGeometry) {
    let x = Global::new(x, g.source_elements() as usize);
    let words = g.elements() as usize * size_of::<T>() / 4;
    let y = GlobalMut::<u32>::new(y.cast(), words);
    let (of_slices, part) = div_rem(thread::block_idx_x(), g.row_blocks());
    let of_row = part * PAD_THREADS + thread::thread_idx_x();
    if of_row >= g.row_vectors() {
        return;
    }
    let first = of_slices as usize * g.row_vectors() as usize;
    let (slice, row) = div_rem(of_slices, g.padded_rows);
    let (sample, slice) = div_rem(slice, g.sample_slices);
    let [of_samples, of_slices] = g.outer_strides.map(|stride| stride as usize);
    let [of_channels, of_rows, of_columns] = g.strides;
    let start = sample as usize * of_samples + slice as usize * of_slices;
    let (column, mut of_pixel) = div_rem(of_row * VECTOR_VALUES, g.padded_channels);
    let (mut joined, mut channel) = div_rem(of_pixel, g.channels);
    // Rows and columns in front of the source wrap to large numbers.
    let [row_lead, column_lead] = g.lead;
    let first_row = (row * g.row_step).wrapping_sub(row_lead);
    let mut column = column.wrapping_sub(column_lead);
    let mut values = [T::from_f32(0.0); VECTOR_VALUES as usize];
    unroll!(8, |i| {
        // Beyond the joined rows, the product may wrap.
        let row = first_row.wrapping_add(joined.wrapping_mul(g.joined_step));
        if column < g.columns && row < g.rows && joined < g.joined_rows {
            let of_slice = row * of_rows + column * of_columns + channel * of_channels;
            values[i] = x.load_readonly(start + of_slice as usize);
        }
        channel += 1;
        if channel == g.channels {
            channel = 0;
            joined += 1;
        }
        of_pixel += 1;
        if of_pixel == g.padded_channels {
            [of_pixel, channel, joined] = [0; 3];
            column = column.wrapping_add(1);
        }
    });
    // As words, since eight f32 are two vectors.
    let at = (first + of_row as usize) * VECTOR_VALUES as usize * size_of::<T>() / 4;
    if size_of::<T>() == 2 {
        y.store_vec(at, transmute_copy::<_, [u32; 4]>(&values));
    } else {
        let [low, high] = transmute_copy::<_, [[u32; 4]; 2]>(&values);
        y.store_vec(at, low);
        y.store_vec(at + low.len(), high);
    }
}
