//! The CPU backend: f32 in and out; whole chains, of which an operator by itself is the shortest.
//!
//! Convolutions are matrix products: the windows of an image become the columns of a matrix
//! (im2col), a cache-sized part at a time, and ndarray's `dot` multiplies the filters with it.
//! Statistics of norms are float64, which a mean a thousand times the deviation does not disturb.
//! Chains are run sample by sample, so that what follows a convolution finds its output in the cache.
//!
//! Work is spread over rayon's threads. How it is cut depends on the problem alone, never on the
//! number of threads or the batch, so results repeat bit for bit.

mod channel_max;
mod conv;
mod graph;
mod maps;
mod max_pool2d;
mod moments;
mod pointwise;
mod pool;

use std::borrow::Cow;

use ndarray::ArrayViewD;

pub(crate) use graph::{operator, run};

use crate::error::Result;
use crate::host_memory::reserve;

/// The elements in row-major order, borrowed where they are in it.
fn dense(x: ArrayViewD<'_, f32>) -> Result<Cow<'_, [f32]>> {
    if let Some(values) = x.to_slice() {
        return Ok(Cow::Borrowed(values));
    }
    let mut values = reserve(x.len())?;
    values.extend(x.iter().copied());
    Ok(Cow::Owned(values))
}

/// The larger number, NaN if either is one. The form matters: it becomes one vector comparison and
/// a selection, where `f32::max` would drop NaN.
#[inline(always)]
fn max_keeping_nan(best: f32, v: f32) -> f32 {
    if v > best || v.is_nan() { v } else { best }
}

#[cfg(test)]
mod tests;
