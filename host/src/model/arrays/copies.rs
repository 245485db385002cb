//! Copies between arrays of the program and staging memory, by all threads of rayon's pool.

use std::mem::MaybeUninit;
use std::ops::Range;

use ndarray::{ArrayViewD, Axis};
use rayon::prelude::*;

use crate::dtype::Element;

/// Elements that a thread copies at a time: 256 KiB of f32, which stay in its cache.
const PIECE: usize = 1 << 16;

/// Samples of an array, to be read.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// Dense and row-major: the elements, and how many a sample has.
    Dense(&'a [f32], usize),
    /// In any order of memory.
    Any(&'a ArrayViewD<'a, f32>),
}

impl<'a> Source<'a> {
    /// The samples of `array`, of which there is at least one.
    pub(super) fn of(array: &'a ArrayViewD<'a, f32>) -> Source<'a> {
        match array.as_slice() {
            Some(values) => Source::Dense(values, values.len() / array.shape()[0].max(1)),
            None => Source::Any(array),
        }
    }

    /// Copies some samples to the first elements of `to`, rounded to its type.
    pub(super) fn stage<T: Element>(&self, samples: Range<usize>, to: &mut [T]) {
        match *self {
            Source::Dense(values, len) => {
                let from = &values[samples.start * len..samples.end * len];
                to.par_chunks_mut(PIECE)
                    .zip(from.par_chunks(PIECE))
                    .with_max_len(1)
                    .for_each(|(to, from)| T::round_all(from, to));
            }
            Source::Any(array) => {
                let len = to.len() / samples.len().max(1);
                to.par_chunks_mut(len.max(1))
                    .zip(samples)
                    .for_each(|(to, sample)| {
                        let from = array.index_axis(Axis(0), sample);
                        for (to, &from) in to.iter_mut().zip(from.iter()) {
                            *to = T::from_f32(from);
                        }
                    });
            }
        }
    }
}

/// Copies all elements of `from` to `to`, widened. All of `to` is written.
pub(super) fn unstage<T: Element>(from: &[T], to: &mut [MaybeUninit<f32>]) {
    to.par_chunks_mut(PIECE)
        .zip(from.par_chunks(PIECE))
        .with_max_len(1)
        .for_each(|(to, from)| T::widen_all(from, to));
}
