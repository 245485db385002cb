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
    /// Computes the moments in two passes. The second sums differences from the mean, so nothing cancels for
    /// any mean. Values that are beyond the range of `dtype` count as infinite, as they are on a GPU where a
    /// norm reads them.
    pub(super) fn of(x: &[f32], dtype: DType) -> Self {
        let read = reader(dtype);
        let count = x.len() as f64;
        let mean = sum(x, &read) / count;
        let variance = sum(x, |v| (read(v) - mean) * (read(v) - mean)) / count;
        Self { mean, variance }
    }

    /// Computes the moments of each channel over the batch. `x` has samples of `channels` channels of
    /// `spatial` elements. Otherwise as [`of`](Self::of).
    pub(super) fn of_batch(x: &[f32], channels: usize, spatial: usize, dtype: DType) -> Vec<Self> {
        let of_channel = |c: usize| {
            let planes = || x.chunks_exact(spatial).skip(c).step_by(channels);
            let read = reader(dtype);
            let count = (planes().len() * spatial) as f64;
            let over_batch =
                |f: &dyn Fn(f64) -> f64| planes().map(|x| sum(x, f)).sum::<f64>() / count;
            let mean = over_batch(&read);
            let variance = over_batch(&|v| (read(v) - mean) * (read(v) - mean));
            Self { mean, variance }
        };
        (0..channels).into_par_iter().map(of_channel).collect()
    }

    /// `1 / sqrt(variance + eps)`.
    pub(super) fn rstd(&self, eps: f64) -> f64 {
        1.0 / (self.variance + eps).sqrt()
    }
}

/// Returns the function that makes values infinite which are beyond the range of `dtype`.
fn reader(dtype: DType) -> impl Fn(f64) -> f64 {
    let least = f64::from(dtype.least_infinite());
    move |v| {
        if v.abs() < least {
            v
        } else {
            v * f64::INFINITY
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_values_have_an_infinite_mean() {
        for (value, dtype) in [(f32::INFINITY, DType::F32), (-65_520.0, DType::F16)] {
            let x = [1.0, value];
            let of_batch = Moments::of_batch(&x, 1, 1, dtype)[0];
            for moments in [Moments::of(&x, dtype), of_batch] {
                assert_eq!(moments.mean, f64::INFINITY.copysign(value.into()));
                assert!(moments.variance.is_nan());
            }
        }
        assert_eq!(
            Moments::of(&[65_519.0, 65_519.0], DType::F16).mean,
            65_519.0
        );
    }
}
