//! Mean and deviation in float64.

use op_spec::LayerNormProblem;
use rayon::prelude::*;

use crate::dtype::DType;
use crate::error::Result;
use crate::host_memory::resize;

/// Mean and variance of a group.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    pub(super) mean: f64,
    /// Mean of the squared deviations from `mean`.
    pub(super) variance: f64,
}

/// The number of independent partial sums, so that additions do not wait for one another.
const LANES: usize = 8;

impl Moments {
    const NAN: Self = Self {
        mean: f64::NAN,
        variance: f64::NAN,
    };

    /// Computes the moments in two passes. The second sums differences from the mean, so nothing cancels for
    /// any mean. The moments of values that are beyond the range of `dtype` are NaN: on a GPU such values are
    /// infinite where a norm reads them.
    pub(super) fn of(x: &[f32], dtype: DType) -> Self {
        if is_beyond(x, dtype) {
            return Self::NAN;
        }
        let count = x.len() as f64;
        let mean = sum(x, |v| v) / count;
        let variance = sum(x, |v| (v - mean) * (v - mean)) / count;
        Self { mean, variance }
    }

    /// Computes the moments of each channel over the batch. `x` has samples of `channels` channels of
    /// `spatial` elements. Otherwise as [`of`](Self::of).
    pub(super) fn of_batch(x: &[f32], channels: usize, spatial: usize, dtype: DType) -> Vec<Self> {
        let of_channel = |c: usize| {
            let planes = || x.chunks_exact(spatial).skip(c).step_by(channels);
            if planes().any(|x| is_beyond(x, dtype)) {
                return Self::NAN;
            }
            let count = (planes().len() * spatial) as f64;
            let over_batch =
                |f: &dyn Fn(f64) -> f64| planes().map(|x| sum(x, f)).sum::<f64>() / count;
            let mean = over_batch(&|v| v);
            let variance = over_batch(&|v| (v - mean) * (v - mean));
            Self { mean, variance }
        };
        (0..channels).into_par_iter().map(of_channel).collect()
    }

    /// `1 / sqrt(variance + eps)`.
    pub(super) fn rstd(&self, eps: f64) -> f64 {
        1.0 / (self.variance + eps).sqrt()
    }
}

/// Whether one of these values is infinite in `dtype`.
fn is_beyond(x: &[f32], dtype: DType) -> bool {
    let least = match dtype {
        DType::F32 => f32::INFINITY,
        DType::F16 => 65_520.0,
        DType::BF16 => f32::from_bits(0x7f7f_8000),
    };
    x.iter().any(|v| v.abs() >= least)
}

/// Sums `f` of each value, in independent lanes.
pub(super) fn sum(x: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for block in blocks {
        for (lane, &v) in lanes.iter_mut().zip(block) {
            *lane += f(f64::from(v));
        }
    }
    let rest: f64 = rest.iter().map(|&v| f(f64::from(v))).sum();
    lanes.iter().sum::<f64>() + rest
}

/// Writes the norm of each row of the sample `x` to `y`. A row is the last axes, or the channels of a
/// position.
///
/// # Errors
/// A lack of memory.
pub(super) fn normalize_rows(
    x: &[f32],
    y: &mut [f32],
    problem: &LayerNormProblem,
    affine: [Option<&[f32]>; 2],
    dtype: DType,
) -> Result<()> {
    let (len, positions) = (problem.shape.spatial, problem.rows_per_sample);
    if !problem.of_channels {
        y.copy_from_slice(x);
        let rows = y.par_chunks_exact_mut(len);
        rows.for_each(|row| normalize_row(row, problem.eps, affine, dtype));
        return Ok(());
    }
    let mut rows = Vec::new();
    resize(&mut rows, x.len())?;
    let each = rows.par_chunks_exact_mut(len).enumerate();
    each.for_each(|(position, row)| {
        let channels = x[position..].iter().step_by(positions);
        row.iter_mut().zip(channels).for_each(|(row, x)| *row = *x);
        normalize_row(row, problem.eps, affine, dtype);
    });
    let planes = y.par_chunks_exact_mut(positions).enumerate();
    planes.for_each(|(channel, y)| {
        let channels = rows[channel..].iter().step_by(len);
        y.iter_mut().zip(channels).for_each(|(y, row)| *y = *row);
    });
    Ok(())
}

/// Normalises a row, with an optional weight and bias for each element.
fn normalize_row(x: &mut [f32], eps: f64, [weight, bias]: [Option<&[f32]>; 2], dtype: DType) {
    let moments = Moments::of(x, dtype);
    let rstd = moments.rstd(eps);
    for (at, v) in x.iter_mut().enumerate() {
        let of_element = |values: Option<&[f32]>, absent| values.map_or(absent, |v| v[at].into());
        let gain = rstd * of_element(weight, 1.0);
        *v = ((f64::from(*v) - moments.mean) * gain + of_element(bias, 0.0)) as f32;
    }
}

/// Computes `x = (x - mean) * gain + bias`, in float64 until the last rounding.
pub(super) fn normalize(x: &mut [f32], mean: f64, gain: f64, bias: f64) {
    for v in x {
        *v = ((f64::from(*v) - mean) * gain + bias) as f32;
    }
}
