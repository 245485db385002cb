//! Pooling before a norm.
//!
//! Norm and scale are monotonic in each channel. So only the largest value of a pooling window matters, or
//! the smallest where norm and scale reverse the order. Kernels multiply such a channel by -1 and take the
//! largest.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, math};

use crate::parts::unroll::unroll;

/// Whether norm and scale reverse the order of the values of channel `channel`.
///
/// # Safety
/// `norm_weight`, where it is not null, and `scale` have `channels` elements, more than `channel`.
#[inline(always)]
pub(crate) unsafe fn is_reversed<T: Storage>(
    norm_weight: *const T,
    scale: *const T,
    channels: usize,
    channel: usize,
) -> bool {
    let negative = |factors: *const T| {
        !factors.is_null()
            && Global::new(factors, channels)
                .load_readonly(channel)
                .to_f32()
                < 0.0
    };
    negative(norm_weight) != negative(scale)
}

/// Returns the largest value, or NaN if there is one, of the `rows` x `columns` window that starts at element
/// `first`. Its rows are `pitch` elements apart.
///
/// # Safety
/// The window is within `values`, which are 16-byte aligned. If `columns` is 2 or 4 and divides `pitch`, it
/// also divides `first`.
#[inline(always)]
pub(crate) unsafe fn largest_of_window(
    values: Shared<f32>,
    first: u32,
    pitch: u32,
    rows: u32,
    columns: u32,
) -> f32 {
    let mut largest = [f32::NEG_INFINITY; 4];
    let mut row = first;
    let end = first + rows * pitch;
    // Four loads in flight, in one instruction where rows of windows are vectors.
    if columns == 4 && pitch.is_multiple_of(4) {
        while row < end {
            let of_row = values.load_vec::<4>(row);
            unroll!(4, |i| {
                largest[i] = math::max_nan(largest[i], of_row[i]);
            });
            row += pitch;
        }
    } else if columns == 2 && pitch.is_multiple_of(2) {
        while row < end {
            let of_row = values.load_vec::<2>(row);
            unroll!(2, |i| {
                largest[i] = math::max_nan(largest[i], of_row[i]);
            });
            row += pitch;
        }
    } else {
        while row < end {
            let mut s = 0;
            while s < columns {
                unroll!(4, |i| {
                    if s + (i as u32) < columns {
                        largest[i] = math::max_nan(largest[i], values.load(row + s + i as u32));
                    }
                });
                s += 4;
            }
            row += pitch;
        }
    }
    let [a, b, c, d] = largest;
    math::max_nan(math::max_nan(a, b), math::max_nan(c, d))
}

/// [`largest_of_window`] of a square window of at most eight rows, fully unrolled, with `TOGETHER` (1, 2 or
/// 4) columns a load.
///
/// # Safety
/// The window is within `values`, which are 16-byte aligned. `first`, `pitch` and `EXTENT` are multiples of
/// `TOGETHER`.
#[inline(always)]
pub(crate) unsafe fn largest_of_square<const EXTENT: usize, const TOGETHER: usize>(
    values: Shared<f32>,
    first: u32,
    pitch: u32,
) -> f32 {
    const { assert!(EXTENT <= 8 && EXTENT.is_multiple_of(TOGETHER)) };
    let mut largest = [f32::NEG_INFINITY; 4];
    unroll!(8, |row| {
        unroll!(8, |column| {
            if row < EXTENT && column < EXTENT && column.is_multiple_of(TOGETHER) {
                let at = first + row as u32 * pitch + column as u32;
                let of_row = values.load_vec::<TOGETHER>(at);
                unroll!(4, |i| {
                    if i < TOGETHER {
                        let all = (column + i) % 4;
                        largest[all] = math::max_nan(largest[all], of_row[i % TOGETHER]);
                    }
                });
            }
        });
    });
    let [a, b, c, d] = largest;
    math::max_nan(math::max_nan(a, b), math::max_nan(c, d))
}
