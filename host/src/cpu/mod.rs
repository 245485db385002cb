//! The CPU backend: runs chains, of which a single operator is the shortest, in f32.
//!
//! Convolutions are matrix products: the windows of an image become the columns of a matrix (im2col), a
//! cache-sized part at a time, and ndarray's `dot` multiplies the filters with it. Statistics of norms are
//! float64, so a mean a thousand times the deviation costs no accuracy. Chains run sample by sample, so that
//! layers after a convolution find its output in the cache. Before a norm by the batch's statistics the whole
//! batch is there.
//!
//! Work is spread over rayon's threads. Its division depends on the problem alone, never on the number of
//! threads or the batch, so results repeat bit for bit.

mod by_itself;
mod conv;
mod conv_transpose;
mod graph;
mod maps;
mod max_pool2d;
mod moments;
mod pointwise;
mod pool;
mod reduction;
mod softmax;
mod stage;
mod upsample;

use std::borrow::Cow;

use ndarray::ArrayViewD;

pub(crate) use graph::{operator, run, run_renewing};

use crate::error::Result;
use crate::host_memory::reserve;

/// The elements in row-major order, borrowed if they are already.
fn dense(x: ArrayViewD<'_, f32>) -> Result<Cow<'_, [f32]>> {
    if let Some(values) = x.to_slice() {
        return Ok(Cow::Borrowed(values));
    }
    let mut values = reserve(x.len())?;
    values.extend(x.iter().copied());
    Ok(Cow::Owned(values))
}

/// The larger number, or NaN if either is NaN. This form compiles to one vector comparison and a selection;
/// `f32::max` would drop NaN.
#[inline(always)]
fn max_keeping_nan(best: f32, v: f32) -> f32 {
    if v > best || v.is_nan() { v } else { best }
}

#[cfg(test)]
mod tests;
