//! The CPU backend, which runs chains in f32. A single operator is the shortest chain.
//!
//! Convolutions are matrix products. The windows of an image become the columns of a matrix (im2col), in
//! cache-sized chunks, and ndarray's `dot` multiplies the filters with it. Statistics of norms are float64,
//! so a mean a thousand times the deviation costs no accuracy. Chains run sample by sample, so that layers
//! after a convolution find its output in the cache. A norm with the batch's statistics waits for the whole
//! batch.
//!
//! Work is spread over rayon's threads. Its division depends only on the problem, never on the number of
//! threads or the batch, so results repeat bit for bit.

mod by_itself;
mod conv;
mod conv_transpose;
mod graph;
mod maps;
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

/// Returns the elements in row-major order, borrowed if they already are.
fn dense(x: ArrayViewD<'_, f32>) -> Result<Cow<'_, [f32]>> {
    if let Some(values) = x.to_slice() {
        return Ok(Cow::Borrowed(values));
    }
    let mut values = reserve(x.len())?;
    values.extend(x.iter().copied());
    Ok(Cow::Owned(values))
}

/// Returns the larger number, or NaN if either is NaN. This form compiles to one vector comparison and a
/// selection; `f32::max` would drop NaN.
#[inline(always)]
fn max_keeping_nan(best: f32, v: f32) -> f32 {
    if v > best || v.is_nan() { v } else { best }
}

#[cfg(test)]
mod tests;
