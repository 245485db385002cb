//! Copies between the caller's arrays and staging memory.

use std::mem::MaybeUninit;
use std::ops::Range;

use ndarray::{ArrayViewD, Axis, Slice};

use crate::dtype::Element;

/// The samples of an array that is read.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A dense, row-major array: the elements, and the number of elements of a sample.
    Dense(&'a [f32], usize),
    /// An array with any strides.
    Any(&'a ArrayViewD<'a, f32>),
}

impl<'a> Source<'a> {
    /// Returns the samples of `array`, which has at least one.
    pub(super) fn of(array: &'a ArrayViewD<'a, f32>) -> Source<'a> {
        match array.as_slice() {
            Some(values) => Source::Dense(values, values.len() / array.shape()[0].max(1)),
            None => Source::Any(array),
        }
    }

    /// Copies some samples to the start of `to`, rounded to its type.
    pub(super) fn stage<T: Element>(&self, samples: Range<usize>, to: &mut [T]) {
        match *self {
            Source::Dense(values, len) => {
                T::round_all(&values[samples.start * len..samples.end * len], to);
            }
            Source::Any(array) => {
                let from = array.slice_axis(Axis(0), Slice::from(samples));
                for (to, &from) in to.iter_mut().zip(from.iter()) {
                    *to = T::from_f32(from);
                }
            }
        }
    }
}

/// Copies all elements of `from` to `to`, widened to f32. All of `to` is written.
pub(super) fn unstage<T: Element>(from: &[T], to: &mut [MaybeUninit<f32>]) {
    T::widen_all(from, to);
}
