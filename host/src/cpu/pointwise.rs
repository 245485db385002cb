//! Pointwise functions. To add a function, add an arm to [`map`].

use std::f64::consts::PI;

use launch_config::pointwise::TAIL;
use ndarray::{ArrayD, ArrayViewD};
use op_spec::{ClampSpec, GeluApproximation, PointwiseProblem, PointwiseSpec};
use rayon::prelude::*;

use crate::error::Result;
use crate::host_memory::reserve;

/// The number of elements that one task computes of a pointwise function.
pub(super) const TASK_ELEMENTS: usize = 1 << 14;

/// Applies `map` to a copy of `x`, in parts of `len` values. `map` gets the index of each part's first value.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(super) fn in_parts(
    x: &ArrayViewD<'_, f32>,
    len: usize,
    map: impl Fn(usize, &mut [f32]) + Sync,
) -> Result<ArrayD<f32>> {
    let mut y = reserve(x.len())?;
    match x.as_slice() {
        Some(values) => y.extend_from_slice(values),
        None => y.extend(x.iter().copied()),
    }
    let parts = y.par_chunks_mut(len.max(1)).enumerate();
    parts.for_each(|(part, y)| map(part * len, y));
    Ok(ArrayD::from_shape_vec(x.raw_dim(), y).expect("as many elements"))
}

/// Applies a function to each value of a tensor of any rank.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(super) fn pointwise(problem: &PointwiseProblem, x: ArrayViewD<'_, f32>) -> Result<ArrayD<f32>> {
    in_parts(&x, TASK_ELEMENTS, |_, values| map(problem, values))
}

/// Applies a function to values in place. Exponentials are computed in float64, so that only the final
/// rounding remains.
pub(super) fn map(problem: &PointwiseProblem, values: &mut [f32]) {
    let rounded = |attribute: f64| f64::from(attribute as f32);
    match problem.function {
        PointwiseSpec::Clamp(spec) => clamp(&spec, values),
        PointwiseSpec::Relu {} => each(values, |x| if x < 0.0 { 0.0 } else { x }),
        PointwiseSpec::LeakyRelu { negative_slope } => {
            let slope = negative_slope as f32;
            each(values, |x| if x > 0.0 { x } else { x * slope });
        }
        PointwiseSpec::Silu {} => wide(values, |x| x / (1.0 + (-x).exp())),
        PointwiseSpec::Gelu {
            approximate: GeluApproximation::None,
        } => wide(values, gelu),
        PointwiseSpec::Gelu {
            approximate: GeluApproximation::Tanh,
        } => wide(values, |x| {
            let double = (8.0 / PI).sqrt() * (x + 0.044715 * x * x * x);
            x / (1.0 + (-double).exp())
        }),
        PointwiseSpec::Sigmoid {} => wide(values, |x| 1.0 / (1.0 + (-x).exp())),
        PointwiseSpec::Tanh {} => wide(values, f64::tanh),
        PointwiseSpec::Hardswish {} => {
            // `f32::clamp` keeps NaN.
            wide(values, |x| x * ((x + 3.0).clamp(0.0, 6.0) / 6.0));
        }
        PointwiseSpec::Elu { alpha } => {
            let alpha = rounded(alpha);
            wide(values, |x| if x > 0.0 { x } else { x.exp_m1() * alpha });
        }
        PointwiseSpec::Softplus { beta, threshold } => {
            let [beta, threshold] = [beta, threshold].map(rounded);
            wide(values, |x| match x * beta {
                product if product > threshold => x,
                product => (product.max(0.0) + (-product.abs()).exp().ln_1p()) / beta,
            });
        }
        PointwiseSpec::Mish {} => wide(values, |x| x * x.exp().ln_1p().tanh()),
        PointwiseSpec::Hardsigmoid {} => wide(values, |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
        function => match (function.as_affine(), function.as_clamp()) {
            // The factor is 1 or the summand -0, so there is one rounding.
            (Some([factor, summand]), _) => each(values, |x| x * factor + summand),
            (None, Some(bounds)) => clamp(&bounds, values),
            (None, None) => unreachable!("every function is computed here"),
        },
    }
}

fn each(values: &mut [f32], f: impl Fn(f32) -> f32) {
    values.iter_mut().for_each(|x| *x = f(*x));
}

fn wide(values: &mut [f32], f: impl Fn(f64) -> f64) {
    each(values, |x| f(f64::from(x)) as f32);
}

fn clamp(spec: &ClampSpec, values: &mut [f32]) {
    let (min, max) = spec.bounds().expect("a problem has bounds");
    let (min, max) = if min.is_nan() || max.is_nan() {
        (f32::NAN, f32::NAN)
    } else {
        (min as f32, max as f32)
    };
    // Comparisons with NaN are false, so a NaN value passes both; a NaN bound replaces every value.
    each(values, |x| {
        let low = if x < min || min.is_nan() { min } else { x };
        if low > max || max.is_nan() { max } else { low }
    });
}

/// Computes `x` times the cumulative normal distribution at `x`.
fn gelu(x: f64) -> f64 {
    // Beyond 40, the tail of the distribution is 0.
    let magnitude = x.abs().min(40.0);
    let q = (magnitude - 4.0) / (magnitude + 4.0);
    let scaled = (TAIL.iter().rev()).fold(0.0, |sum, &factor| sum * q + f64::from(factor));
    let tail = (magnitude * magnitude * -0.5).exp() * scaled / (magnitude + 4.0);
    x * if x < 0.0 { tail } else { 1.0 - tail }
}
