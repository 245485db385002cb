//! Copies of tensors with more channels and columns, for products of lines that are whole vectors.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::gemm::{PAD_THREADS, PadChannelsGeometry, VECTOR_VALUES};

use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// A block writes consecutive vectors of `y`: the values of `x`, and zeros where it has none.
///
/// *Launch*: `g.shape()`. *Mapping*: a vector of 16 bytes a thread. *Barriers*: none. *Traffic*: each element
/// of `y` is written once, each of `x` read once.
///
/// # Safety
/// `x` has `g.source_elements()` at the strides of `g`, and `y` has `g.elements()` and starts on 16 bytes;
/// the two do not overlap.
#[kernel(instances(T: [f16, bf16]), max_threads = PAD_THREADS, min_blocks = 8)]
pub unsafe fn gemm_pad_channels<T: Storage>(x: *const T, y: *mut T, g: &PadChannelsGeometry) {
    let x = Global::new(x, g.source_elements() as usize);
    let y = GlobalMut::new(y, g.elements() as usize);
    let vector = thread::block_idx_x() * PAD_THREADS + thread::thread_idx_x();
    let (row, of_row) = div_rem(vector, g.row_vectors());
    if row >= g.rows {
        return;
    }
    let (sample, of_sample) = div_rem(row, g.sample_rows);
    let [of_samples, of_channels, of_rows, of_columns] = g.strides.map(|stride| stride as usize);
    let start = sample as usize * of_samples + of_sample as usize * of_rows;
    let (column, mut channel) = div_rem(of_row * VECTOR_VALUES, g.padded_channels);
    // In front of the source columns have wrapped.
    let mut column = column.wrapping_sub(g.lead);
    let mut values = [T::from_f32(0.0); VECTOR_VALUES as usize];
    unroll!(8, |i| {
        if column < g.columns && channel < g.channels {
            let at = column as usize * of_columns + channel as usize * of_channels;
            values[i] = x.load_readonly(start + at);
        }
        channel += 1;
        if channel == g.padded_channels {
            channel = 0;
            column = column.wrapping_add(1);
        }
    });
    y.store_vec(vector as usize * VECTOR_VALUES as usize, values);
}
