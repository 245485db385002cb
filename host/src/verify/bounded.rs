//! Values with the error that floating-point arithmetic may put on each of them.
//!
//! Every operator contributes `(4 + sqrt(L)) * unit * condition`: `L` is the longest chain of
//! additions that follow one another, `condition` the sum of the magnitudes that rounding errors
//! are relative to, and the square root takes those errors for independent. Errors that its input
//! already has pass on through the operator's derivative. What comes out is tight enough to notice
//! one dropped element in a mean over 65,536, and needs no tuning for new shapes or data.
//!
//! | operator | condition | passes on an input error `t` as |
//! |---|---|---|
//! | convolution | `sum of abs(x * w) + abs(bias)` | `sum of t * abs(w)` |
//! | norm | `rstd * abs(weight) * (abs(x) + mean of abs(x)) + abs(y) + abs(bias)` | `rstd * abs(weight) * (t + mean of t + abs(x̂) * mean of abs(x̂) * t)` |
//! | scale | `abs(y)` | `t * abs(scale)` |
//! | maxima | 0 | the largest `t` of the window |
//! | clamp | `abs(y)`, for the rounding of the bounds | `t`, nothing where a bound surely holds |
//!
//! Infinities and NaN are either right or wrong: their tolerance is 0.

use ndarray::{Array, Array1, ArrayD, ArrayView, ArrayViewD, Axis, Dimension, Ix4, Ix5, Zip};
use op_spec::launch::norm::{NormGeometry, STATS_THREADS};
use op_spec::{ClampSpec, Conv2dSpec, Conv3dSpec, GroupNormSpec, MaxPool2dSpec, SpecError};
use rayon::prelude::*;

use super::Precision;
use crate::reference;

/// A tensor in float64 and, element by element, how far off another computation of it may be.
#[derive(Clone, Debug)]
pub struct Bounded {
    pub(super) values: ArrayD<f64>,
    pub(super) tolerance: ArrayD<f64>,
    pub(super) precision: Precision,
}

impl Bounded {
    /// An input: nothing has been computed yet.
    #[must_use]
    pub fn exact<D: Dimension>(x: &Array<f32, D>, precision: &Precision) -> Self {
        Self::exact_view(x.view(), precision)
    }

    fn exact_view<D: Dimension>(x: ArrayView<'_, f32, D>, precision: &Precision) -> Self {
        let values = x.mapv(f64::from).into_dyn();
        Self {
            tolerance: ArrayD::zeros(values.raw_dim()),
            values,
            precision: *precision,
        }
    }

    /// Runs a pipeline on one sample after the other, so that only its output is ever whole.
    pub(super) fn by_sample<D: Dimension + ndarray::RemoveAxis>(
        x: ArrayView<'_, f32, D>,
        precision: &Precision,
        output_shape: &[usize],
        pipeline: impl Fn(Self) -> Result<Self, SpecError> + Sync,
    ) -> Result<Self, SpecError> {
        let mut whole = Self {
            values: ArrayD::zeros(output_shape),
            tolerance: ArrayD::zeros(output_shape),
            precision: *precision,
        };
        whole
            .values
            .axis_chunks_iter_mut(Axis(0), 1)
            .into_par_iter()
            .zip(whole.tolerance.axis_chunks_iter_mut(Axis(0), 1))
            .zip(x.axis_chunks_iter(Axis(0), 1))
            .try_for_each(|((mut values, mut tolerance), x)| {
                let sample = pipeline(Self::exact_view(x, precision))?;
                values.assign(&sample.values);
                tolerance.assign(&sample.tolerance);
                Ok(())
            })?;
        Ok(whole)
    }

    /// `values` computed with errors up to `tolerance`, then stored.
    fn stored(mut values: ArrayD<f64>, mut tolerance: ArrayD<f64>, precision: Precision) -> Self {
        Zip::from(&mut values)
            .and(&mut tolerance)
            .for_each(|value, tolerance| {
                *tolerance = if value.is_finite() {
                    *tolerance + precision.storage * value.abs() + precision.underflow
                } else {
                    0.0
                };
            });
        Self {
            values,
            tolerance,
            precision,
        }
    }

    pub(super) fn conv2d(
        self,
        weight: &ndarray::Array4<f32>,
        bias: Option<&Array1<f32>>,
        spec: &Conv2dSpec,
    ) -> Result<Self, SpecError> {
        let weight = weight.mapv(f64::from);
        let bias = bias.map(|bias| bias.mapv(f64::from));
        let image = |x: &ArrayD<f64>| x.clone().into_dimensionality::<Ix4>().expect("an image");
        let convolve =
            |x: ndarray::Array4<f64>, weight: &ndarray::Array4<f64>, bias: Option<&Array1<f64>>| {
                reference::conv2d(x.view(), weight.view(), bias.map(|bias| bias.view()), spec)
                    .map(Array::into_dyn)
            };
        self.convolved(weight, bias, |x, weight, bias| {
            convolve(image(x), weight, bias)
        })
    }

    pub(super) fn conv3d(
        self,
        weight: &ndarray::Array5<f32>,
        bias: Option<&Array1<f32>>,
        spec: &Conv3dSpec,
    ) -> Result<Self, SpecError> {
        let weight = weight.mapv(f64::from);
        let bias = bias.map(|bias| bias.mapv(f64::from));
        let volume = |x: &ArrayD<f64>| x.clone().into_dimensionality::<Ix5>().expect("a volume");
        let convolve =
            |x: ndarray::Array5<f64>, weight: &ndarray::Array5<f64>, bias: Option<&Array1<f64>>| {
                reference::conv3d(x.view(), weight.view(), bias.map(|bias| bias.view()), spec)
                    .map(Array::into_dyn)
            };
        self.convolved(weight, bias, |x, weight, bias| {
            convolve(volume(x), weight, bias)
        })
    }

    fn convolved<D: Dimension>(
        self,
        weight: Array<f64, D>,
        bias: Option<Array1<f64>>,
        convolve: impl Fn(
            &ArrayD<f64>,
            &Array<f64, D>,
            Option<&Array1<f64>>,
        ) -> Result<ArrayD<f64>, SpecError>,
    ) -> Result<Self, SpecError> {
        let values = convolve(&self.values, &weight, bias.as_ref())?;
        let magnitude = weight.mapv(f64::abs);
        let bias = bias.map(|bias| bias.mapv(f64::abs));
        let condition = convolve(&self.values.mapv(f64::abs), &magnitude, bias.as_ref())?;
        let chain: usize = weight.shape()[1..].iter().product();
        let mut tolerance = condition * (chained(chain) * self.precision.products);
        if self.tolerance.iter().any(|&t| t != 0.0) {
            tolerance += &convolve(&self.tolerance, &magnitude, None)?;
        }
        Ok(Self::stored(values, tolerance, self.precision))
    }

    /// A group normalisation whose specification has been checked.
    pub(super) fn normalize(
        self,
        weight: Option<&Array1<f32>>,
        bias: Option<&Array1<f32>>,
        spec: &GroupNormSpec,
    ) -> Self {
        let weight = weight.map(|weight| weight.mapv(f64::from));
        let bias = bias.map(|bias| bias.mapv(f64::from));
        let values = reference::normalize(
            self.values.view(),
            weight.as_ref().map(|weight| weight.view()),
            bias.as_ref().map(|bias| bias.view()),
            spec,
        );
        let mut tolerance = self.tolerance.as_standard_layout().into_owned();
        if !values.is_empty() {
            let channels_per_group = values.shape()[1] / spec.num_groups;
            let spatial: usize = values.shape()[2..].iter().product();
            let group_len = channels_per_group * spatial;
            let unit = chained(norm_chain(group_len)) * self.precision.arithmetic;
            let x = self.values.as_standard_layout();
            let groups = x.as_slice().expect("standard layout").par_chunks(group_len);
            let tolerances = tolerance.as_slice_mut().expect("standard layout");
            let y = values
                .as_slice()
                .expect("the reference's output is in standard layout");
            groups
                .zip(tolerances.par_chunks_mut(group_len))
                .zip(y.par_chunks(group_len))
                .enumerate()
                .for_each(|(index, ((x, t), y))| {
                    let group = Group::of(x, t, spec.eps);
                    let first = index % spec.num_groups * channels_per_group;
                    for (i, t) in t.iter_mut().enumerate() {
                        let c = first + i / spatial;
                        let weight = weight.as_ref().map_or(1.0, |weight| weight[c].abs());
                        let bias = bias.as_ref().map_or(0.0, |bias| bias[c].abs());
                        let gain = group.rstd * weight;
                        let own = gain * (x[i].abs() + group.mean_abs) + y[i].abs() + bias;
                        *t = unit * own + gain * group.passed_on(x[i], *t);
                    }
                });
        }
        Self::stored(values, tolerance, self.precision)
    }

    pub(super) fn scale(self, scale: &Array1<f32>) -> Result<Self, SpecError> {
        let scale = scale.mapv(f64::from);
        let values = reference::scale(self.values.view(), scale.view())?;
        let passed_on = reference::scale(self.tolerance.view(), scale.mapv(f64::abs).view())?;
        let own = values.mapv(|y| chained(0) * self.precision.arithmetic * y.abs());
        Ok(Self::stored(values, own + passed_on, self.precision))
    }

    pub(super) fn max_pool2d(self, spec: &MaxPool2dSpec) -> Result<Self, SpecError> {
        let pool = |x: &ArrayViewD<'_, f64>| {
            let x = x.view().into_dimensionality::<Ix4>().expect("an image");
            Ok(reference::max_pool2d(x, spec)?.into_dyn())
        };
        let values = pool(&self.values.view())?;
        let tolerance = pool(&self.tolerance.view())?;
        Ok(self.selected(values, tolerance))
    }

    pub(super) fn channel_max(self) -> Result<Self, SpecError> {
        let values = reference::channel_max(self.values.view())?;
        let tolerance = reference::channel_max(self.tolerance.view())?;
        Ok(self.selected(values, tolerance))
    }

    /// An output whose elements are among the inputs: computed and stored without any new error.
    fn selected(&self, values: ArrayD<f64>, mut tolerance: ArrayD<f64>) -> Self {
        Zip::from(&values).and(&mut tolerance).for_each(|value, t| {
            if !value.is_finite() {
                *t = 0.0;
            }
        });
        Self {
            values,
            tolerance,
            precision: self.precision,
        }
    }

    pub(super) fn clamp(self, spec: &ClampSpec) -> Result<Self, SpecError> {
        let (min, max) = spec.bounds()?;
        let values = reference::clamp(self.values.view(), spec)?;
        let mut tolerance = self.tolerance;
        Zip::from(&mut tolerance)
            .and(&self.values)
            .and(&values)
            .for_each(|t, &x, y| {
                if x + *t <= min || x - *t >= max {
                    *t = 0.0;
                }
                *t += self.precision.arithmetic * y.abs();
            });
        Ok(Self::stored(values, tolerance, self.precision))
    }
}

/// What the tolerance of a norm needs to know of a group.
struct Group {
    mean: f64,
    mean_abs: f64,
    rstd: f64,
    /// Mean of the input's tolerance.
    mean_t: f64,
    /// Mean of the input's tolerance, weighted with the normalised values.
    mean_weighted_t: f64,
}

impl Group {
    fn of(x: &[f64], t: &[f64], eps: f64) -> Self {
        let count = x.len() as f64;
        let mean = x.iter().sum::<f64>() / count;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        let rstd = 1.0 / (variance + eps).sqrt();
        let weighted = x.iter().zip(t).map(|(v, t)| (v - mean).abs() * rstd * t);
        Self {
            mean,
            mean_abs: x.iter().map(|v| v.abs()).sum::<f64>() / count,
            rstd,
            mean_t: t.iter().sum::<f64>() / count,
            mean_weighted_t: weighted.sum::<f64>() / count,
        }
    }

    /// The derivative of `(x - mean) / deviation` applied to the input's tolerance, without its
    /// factor `rstd`.
    fn passed_on(&self, x: f64, t: f64) -> f64 {
        t + self.mean_t + ((x - self.mean) * self.rstd).abs() * self.mean_weighted_t
    }
}

/// The factor of a result behind `chain` additions in sequence.
fn chained(chain: usize) -> f64 {
    4.0 + (chain as f64).sqrt()
}

/// The longest chain of additions in a mean over `len` values: what one thread of the statistics
/// kernel adds up, the tree over the block, and the splits in sequence.
fn norm_chain(len: usize) -> usize {
    let geometry = NormGeometry::new(1, 1, 1, len as u64, 0.0);
    let split = geometry.split_elements.min(geometry.row_elements);
    let tree = STATS_THREADS.ilog2() as usize;
    split.div_ceil(u64::from(STATS_THREADS)) as usize + tree + geometry.splits as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::signed;

    #[test]
    fn a_norm_of_65536_values_notices_a_dropped_element_and_a_wrong_divisor() {
        let x = signed(5, [1, 1, 256, 256]).into_dyn();
        let spec = GroupNormSpec::new(1);
        let bounded = Bounded::exact(&x, &Precision::F32).normalize(None, None, &spec);
        let x = x.mapv(f64::from);
        let count = x.len() as f64;
        let mean = x.sum() / count;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        let fails = |mean: f64, variance: f64| {
            let y = x.mapv(|v| (v - mean) / (variance + spec.eps).sqrt());
            Zip::from(&y)
                .and(&bounded.values)
                .and(&bounded.tolerance)
                .any(|y, value, t| (y - value).abs() > *t)
        };
        assert!(!fails(mean, variance));
        assert!(fails(mean, variance * count / (count - 1.0)));
        let dropped = x.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        assert!(fails(mean - dropped / count, variance));
    }

    #[test]
    fn maxima_and_wholly_clamped_values_tolerate_nothing_new() {
        let x = signed(6, [1, 2, 6, 6]);
        let pooled = Bounded::exact(&x, &Precision::F32)
            .max_pool2d(&MaxPool2dSpec::new([2, 2]))
            .unwrap();
        assert!(pooled.tolerance.iter().all(|&t| t == 0.0));
        let mut loose = Bounded::exact(&x, &Precision::F32);
        loose.tolerance.fill(0.5);
        let clamped = loose.clamp(&ClampSpec::new(2.0, 3.0)).unwrap();
        assert!(clamped.tolerance.iter().all(|&t| t < 1e-6));
    }
}
