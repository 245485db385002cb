//! `y = (x - mean) / sqrt(variance + eps) * weight[c] + bias[c]`, mean and (biased) variance over the
//! channels of a group and all positions of one sample.
//!
//! *Condition*: `rstd * abs(weight) * (abs(x) + mean of abs(x)) + abs(y) + abs(bias)`. *Passes on* `t` as
//! `rstd * abs(weight) * (t + mean of t + abs(x̂) * mean of abs(x̂) * t)`.

use launch_config::norm::{NormGeometry, STATS_THREADS};
use ndarray::{Array1, ArrayD, Axis};
use op_spec::GroupNormProblem;
use rayon::prelude::*;

use super::operator::{Given, Operator, chained};
use crate::cases::cases;
use crate::{Bounded, Cases, Precision};

impl Operator for GroupNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.as_standard_layout().into_owned();
        if y.is_empty() {
            return y;
        }
        let affine = Affine::new(self, parameters);
        let groups = y.as_slice_mut().expect("standard layout is contiguous");
        groups
            .par_chunks_mut(self.group_len())
            .enumerate()
            .for_each(|(index, group)| {
                let count = group.len() as f64;
                let mean = group.iter().sum::<f64>() / count;
                let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
                let rstd = 1.0 / (variance + self.eps).sqrt();
                let first = index % self.num_groups * self.channels_per_group();
                for (c, channel) in (first..).zip(group.chunks_exact_mut(self.shape.spatial)) {
                    let (weight, bias) = affine.of(c);
                    for v in channel {
                        *v = (*v - mean) * rstd * weight + bias;
                    }
                }
            });
        y
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let unit = chained(longest_chain(self.group_len())) * precision.arithmetic;
        self.tolerance_in(of, t, unit)
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// [`Operator::tolerance`] of group norms, and of other norms with their own chains of additions.
pub(super) trait Chained {
    /// The same with `unit` as the error of the chains.
    fn tolerance_in(&self, of: &Given<'_>, t: ArrayD<f64>, unit: f64) -> ArrayD<f64>;
}

impl Chained for GroupNormProblem {
    fn tolerance_in(&self, of: &Given<'_>, t: ArrayD<f64>, unit: f64) -> ArrayD<f64> {
        let &Given { x, y, parameters } = of;
        let mut tolerance = match t.is_standard_layout() {
            true => t,
            false => t.as_standard_layout().into_owned(),
        };
        if y.is_empty() {
            return tolerance;
        }
        let affine = Affine::new(self, parameters);
        let group_len = self.group_len();
        let x = x.as_standard_layout();
        let groups = x.as_slice().expect("standard layout").par_chunks(group_len);
        let tolerances = tolerance.as_slice_mut().expect("standard layout");
        let y = y
            .as_slice()
            .expect("the reference's output is in standard layout");
        groups
            .zip(tolerances.par_chunks_mut(group_len))
            .zip(y.par_chunks(group_len))
            .enumerate()
            .for_each(|(index, ((x, t), y))| {
                let group = Group::of(x, t, self.eps);
                let first = index % self.num_groups * self.channels_per_group();
                let of_channels = x.chunks_exact(self.shape.spatial);
                let of_channels = of_channels.zip(y.chunks_exact(self.shape.spatial));
                let of_channels = of_channels.zip(t.chunks_exact_mut(self.shape.spatial));
                for (c, ((x, y), t)) in (first..).zip(of_channels) {
                    let (weight, bias) = affine.of(c);
                    let gain = group.rstd * weight.abs();
                    for ((x, y), t) in x.iter().zip(y).zip(t) {
                        let own = gain * (x.abs() + group.mean_abs) + y.abs() + bias.abs();
                        let passed_on = gain * group.passed_on(*x, *t);
                        *t = unit * (own + passed_on) + passed_on;
                    }
                }
            });
        tolerance
    }
}

/// The weight and bias that are present.
struct Affine<'a> {
    weight: Option<&'a ArrayD<f64>>,
    bias: Option<&'a ArrayD<f64>>,
}

impl<'a> Affine<'a> {
    fn new(problem: &GroupNormProblem, parameters: &[&'a ArrayD<f64>]) -> Self {
        let mut parameters = parameters.iter().copied();
        let mut next = |present: bool| {
            present.then(|| parameters.next().expect("a value for every parameter"))
        };
        Self {
            weight: next(problem.weight),
            bias: next(problem.bias),
        }
    }

    /// Weight and bias of channel `c`.
    fn of(&self, c: usize) -> (f64, f64) {
        let value = |values: Option<&ArrayD<f64>>, absent| values.map_or(absent, |v| v[c]);
        (value(self.weight, 1.0), value(self.bias, 0.0))
    }
}

/// The values and the tolerance, before storage, of a norm and a scale that is folded into the norm's weight
/// and bias. Weight and bias are stored with this precision.
///
/// The products `weight * scale` and `bias * scale` each have an error of the format's unit and of its
/// underflow. The tolerance of a norm with these products increases by the first product's error times the
/// largest possible `abs(x̂)`, and by the second product's error. Both count in full if the two terms cancel
/// and the result is small. The value between norm and scale is not stored.
pub(crate) fn folded(
    norm: &GroupNormProblem,
    x: &Bounded,
    parameters: &[&ArrayD<f64>],
    scale: &ArrayD<f64>,
    precision: &Precision,
) -> (ArrayD<f64>, ArrayD<f64>) {
    let affine = Affine::new(norm, parameters);
    let channels = scale.iter().enumerate();
    let products = channels.map(|(c, scale)| (affine.of(c).0 * scale, affine.of(c).1 * scale));
    let (gain, shift): (Vec<f64>, Vec<f64>) = products.unzip();
    let rounded = |product: f64| precision.storage * product.abs() + precision.underflow;
    let errors: Vec<_> = (gain.iter().zip(&shift))
        .map(|(&gain, &shift)| (rounded(gain), rounded(shift)))
        .collect();

    let (mut with, mut without) = (*norm, *norm);
    (with.weight, with.bias) = (true, true);
    (without.weight, without.bias) = (false, false);
    let [gain, shift] = [gain, shift].map(|values| Array1::from(values).into_dyn());
    let off_by = |norm: &GroupNormProblem, parameters: &[&ArrayD<f64>]| {
        let y = norm.reference(&x.values, parameters);
        let of = Given {
            x: &x.values,
            y: &y,
            parameters,
        };
        let tolerance = norm.tolerance(&of, x.tolerance.clone(), precision);
        (y, tolerance)
    };
    let (values, mut tolerance) = off_by(&with, &[&gain, &shift]);
    let (normalised, off) = off_by(&without, &[]);
    let largest = normalised.mapv(f64::abs) + off;
    let channels = tolerance.axis_iter_mut(Axis(1)).zip(errors);
    for ((mut tolerance, (of_gain, of_shift)), largest) in channels.zip(largest.axis_iter(Axis(1)))
    {
        tolerance.zip_mut_with(&largest, |t, largest| *t += of_gain * largest + of_shift);
    }
    (values, tolerance)
}

/// The statistics of a group that determine the tolerance.
struct Group {
    mean: f64,
    mean_abs: f64,
    rstd: f64,
    /// Mean of the input's tolerance.
    mean_t: f64,
    /// Mean of the input's tolerance, weighted by the magnitudes of the normalised values.
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

    /// Applies the derivative of `(x - mean) / deviation`, without its factor `rstd`, to the input's
    /// tolerance.
    fn passed_on(&self, x: f64, t: f64) -> f64 {
        t + self.mean_t + ((x - self.mean) * self.rstd).abs() * self.mean_weighted_t
    }
}

/// The longest chain of additions in a mean over `len` values: the sum of one thread of the statistics
/// kernel, the tree over the block, and the splits in sequence.
pub(super) fn longest_chain(len: usize) -> usize {
    let geometry = NormGeometry::new(1, 1, 1, len as u64, 0.0);
    let split = geometry.split_elements.min(geometry.row_elements);
    let tree = STATS_THREADS.ilog2() as usize;
    split.div_ceil(u64::from(STATS_THREADS)) as usize + tree + geometry.splits as usize
}

pub(super) const CASES: Cases = cases!(
    "group_norm", "name=group_norm",
    smoke: "plain 2x6x5x7 num_groups=3",
    ragged: "
        empty_batch 0x6x5x7 num_groups=3
        empty_image 2x6x0x7 num_groups=3
        one_value_per_group 2x5x1x1 num_groups=5
        matrix 7x30 num_groups=6
        one_group 2x7x11x13 num_groups=1 eps=1e-3
        group_per_channel 3x7x5x3 num_groups=7 affine=false
        volume 2x6x3x5x7 num_groups=2
        long_rows 1x2x127x257 num_groups=2
        mean_1000_times_deviation 2x4x33x35 num_groups=2 shifted=577",
    realistic: "
        unet 2x64x62x62 num_groups=16
        layer_norm_of_images 2x48x56x56 num_groups=1 eps=1e-6"
);

#[cfg(test)]
mod tests {
    use ndarray::{IxDyn, Zip, array};
    use op_spec::GroupNormSpec;
    use op_spec::graph::LayerProblem;

    use super::*;
    use crate::data::signed;

    #[test]
    fn a_norm_worked_by_hand() {
        let x = array![[1.0, 3.0], [5.0, 5.0]].into_dyn();
        let (weight, bias) = (array![2.0, 4.0].into_dyn(), array![10.0, 20.0].into_dyn());
        let spec = GroupNormSpec::new(1).eps(3.0);
        let problem = spec.problem(&[2, 2], Some(&[2]), Some(&[2])).unwrap();
        let y = problem.reference(&x, &[&weight, &bias]);
        assert_eq!(y, array![[9.0, 22.0], [10.0, 20.0]].into_dyn());
        let problem = spec.problem(&[2, 2], None, Some(&[2])).unwrap();
        let y = problem.reference(&x, &[&bias]);
        assert_eq!(y, array![[9.5, 20.5], [10.0, 20.0]].into_dyn());
    }

    #[test]
    fn a_folded_scale_is_off_by_what_its_products_were_rounded_by() {
        // Weight and bias cancel: the result is far smaller than the rounding errors of their products.
        let x = signed(5, &[1, 1, 1, 64]);
        let norm = GroupNormSpec::new(1);
        let norm = norm.problem(x.shape(), Some(&[1]), Some(&[1])).unwrap();
        let precision = Precision::F16;
        let mut plain = norm;
        (plain.weight, plain.bias) = (false, false);
        let input = Bounded::exact(x.view());
        let normalised = plain.reference(&input.values, &[]);
        let some = |value: f64| ArrayD::from_elem(IxDyn(&[1]), value);
        let (weight, bias, scale) = (some(1.0), some(-normalised[[0, 0, 0, 7]]), some(1.37));
        let (values, tolerance) = folded(&norm, &input, &[&weight, &bias], &scale, &precision);
        // An error of `parts` units of the format, in the direction of the normalised value's sign.
        let is_within = |parts: f64| {
            let gain = scale[0] * (1.0 + parts * precision.storage);
            let shift = bias[0] * scale[0] * (1.0 - parts * precision.storage);
            let got = normalised[[0, 0, 0, 7]] * gain + shift;
            (got - values[[0, 0, 0, 7]]).abs() <= tolerance[[0, 0, 0, 7]]
        };
        assert!(values[[0, 0, 0, 7]].abs() < 1e-12);
        assert!(is_within(1.0) && !is_within(1.2));
    }

    #[test]
    fn a_mean_of_65536_values_notices_a_dropped_element_and_a_wrong_divisor() {
        let x = signed(5, &[1, 1, 256, 256]);
        let spec = GroupNormSpec::new(1);
        let problem = LayerProblem::GroupNorm(spec.problem(x.shape(), None, None).unwrap());
        let bounded = Bounded::exact(x.view()).through(&problem, &[], &Precision::F32);
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
}
