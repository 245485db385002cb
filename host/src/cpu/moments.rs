//! Mean and deviation in float64.

use rayon::prelude::*;

/// Mean and reciprocal deviation of a group.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    pub(super) mean: f64,
    /// Mean of the squared deviations from `mean`.
    pub(super) variance: f64,
}

/// Independent partial sums, so that additions need not wait for one another.
const LANES: usize = 8;

impl Moments {
    /// Two passes, the second over differences from the mean: no cancellation at any mean.
    pub(super) fn of(x: &[f32]) -> Self {
        let count = x.len() as f64;
        let mean = sum(x, |v| v) / count;
        let variance = sum(x, |v| (v - mean) * (v - mean)) / count;
        Self { mean, variance }
    }

    /// The same of each channel over the batch, `x` being samples of channels of `spatial` elements.
    pub(super) fn of_batch(x: &[f32], channels: usize, spatial: usize) -> Vec<Self> {
        let of_channel = |c: usize| {
            let planes = || x.chunks_exact(spatial).skip(c).step_by(channels);
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

/// The sum of `f` of each value, in lanes that do not wait for one another.
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

/// Normalises a row, whose elements have a weight and a bias each, where these exist.
pub(super) fn normalize_row(x: &mut [f32], eps: f64, [weight, bias]: [Option<&[f32]>; 2]) {
    let moments = Moments::of(x);
    let rstd = moments.rstd(eps);
    for (at, v) in x.iter_mut().enumerate() {
        let of_element = |values: Option<&[f32]>, absent| values.map_or(absent, |v| v[at].into());
        let gain = rstd * of_element(weight, 1.0);
        *v = ((f64::from(*v) - moments.mean) * gain + of_element(bias, 0.0)) as f32;
    }
}

/// `x = (x - mean) * gain + bias`, in float64 until the end.
pub(super) fn normalize(x: &mut [f32], mean: f64, gain: f64, bias: f64) {
    for v in x {
        *v = ((f64::from(*v) - mean) * gain + bias) as f32;
    }
}
