//! `y[n, k, p, q] = bias[k] + sum over c, r, s of weight[k, c, r, s] * x[n, c, p', q']` with
//! `p' = p * stride - padding + r * dilation`, `q'` likewise, and zeros outside the image, or what the mode of padding puts
//! there. A convolution of volumes has one dimension more, one of sequences one less; both are done as one of volumes.
//!
//! *Condition*: `sum of abs(x * w) + abs(bias)`; of products whose factors are rounded, what these lack comes on top, in parts of
//! `sum of abs(x * w)`; for what an input lacks however small it is, this times `sum of abs(w)` over the whole filter; and for what
//! factors lack in parts of their sample's or filter's largest, this times `max of abs(x) * sum of abs(w)` and
//! `max of abs(w) * sum of abs(x)` over the window. *Passes on* `t` as `sum of t * abs(w)`.

mod cases;
mod golden;
mod sequences;
mod sums;

use ndarray::{Array5, ArrayD, ArrayView5, ArrayViewD, Axis, Ix5};
use op_spec::{Border, ConvProblem, PaddingMode};

use super::operator::{Operator, chained};
use crate::Precision;
use sums::{Terms, convolve};

pub(super) use cases::{CONV2D, CONV3D};
pub(crate) use golden::read_layer;
pub(super) use sequences::CONV1D;

impl<const D: usize> Operator for ConvProblem<D> {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let bias = self.bias.then(|| parameters[1]);
        sums_of(self, x, parameters[0], bias, Terms::Products)
    }

    fn tolerance(
        &self,
        x: &ArrayD<f64>,
        t: ArrayD<f64>,
        y: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        let tolerances = self.tolerances(x, vec![t], y, parameters, &[*precision]);
        tolerances.into_iter().next().expect("one of each")
    }

    fn tolerances(
        &self,
        x: &ArrayD<f64>,
        t: Vec<ArrayD<f64>>,
        _: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precisions: &[Precision],
    ) -> Vec<ArrayD<f64>> {
        let weight = parameters[0];
        let bias = self.bias.then(|| parameters[1]);
        // The same for all precisions.
        let magnitudes = sums_of(self, x, weight, None, Terms::Magnitudes);
        let of_precision = |(t, precision): (ArrayD<f64>, &Precision)| {
            let of_sums = chained(self.reduction()) * precision.products;
            let unit = of_sums + precision.factors;
            let mut tolerance = magnitudes.mapv(|v| v * unit);
            // A bias is added as it is.
            for (k, mut tolerance) in tolerance.axis_iter_mut(Axis(1)).enumerate() {
                tolerance += bias.map_or(0.0, |bias| of_sums * bias[k].abs());
            }
            if t.iter().any(|&t| t != 0.0) {
                let passed_on = sums_of(self, &t, weight, None, Terms::Magnitudes);
                tolerance.zip_mut_with(&passed_on, |own, passed_on| {
                    *own += passed_on * (1.0 + unit)
                });
            }
            if precision.factors_underflow != 0.0 {
                let channels = tolerance.axis_iter_mut(Axis(1));
                for (mut tolerance, filter) in channels.zip(weight.outer_iter()) {
                    // An infinite element makes the result infinite, or is outside.
                    let (_, sum) = finite(&filter);
                    tolerance += precision.factors_underflow * sum;
                }
            }
            if precision.factors_of_largest != 0.0 {
                let magnitudes = x.mapv(f64::abs) + &t;
                add_far_below(
                    &mut tolerance,
                    self,
                    &magnitudes,
                    weight,
                    precision.factors_of_largest,
                );
            }
            tolerance
        };
        t.into_iter().zip(precisions).map(of_precision).collect()
    }

    fn cost(&self) -> u64 {
        (self.output_shape().elements() as u64).saturating_mul(self.reduction() as u64)
    }
}

/// The first spatial axis.
const FIRST: Axis = Axis(2);

/// Below this kernels scale all largest values alike, by `2^126`: f32 has no larger power of two whose reciprocal is normal.
const LEAST_LARGEST: f64 = f32::MIN_POSITIVE as f64 * 256.0;

/// Adds to a tolerance what factors lack that are far smaller than the largest of their sample, of what `x` has the magnitudes, or filter.
fn add_far_below<const D: usize>(
    tolerance: &mut ArrayD<f64>,
    problem: &ConvProblem<D>,
    x: &ArrayD<f64>,
    weight: &ArrayD<f64>,
    part: f64,
) {
    // Of each group, the sums of magnitudes that its filters see.
    let mut of_groups = *problem;
    (of_groups.k, of_groups.bias) = (problem.groups, false);
    let mut shape = weight.shape().to_vec();
    shape[0] = problem.groups;
    let windows = sums_of(&of_groups, x, &ArrayD::ones(shape), None, Terms::Magnitudes);
    let largest_and_sum = |values| {
        let (largest, sum) = finite(&values);
        (largest.max(LEAST_LARGEST), sum)
    };
    let filters: Vec<(f64, f64)> = weight.outer_iter().map(largest_and_sum).collect();
    let samples = tolerance.outer_iter_mut().zip(x.outer_iter());
    for ((mut tolerance, x), windows) in samples.zip(windows.outer_iter()) {
        let (largest_x, _) = largest_and_sum(x);
        for (k, mut tolerance) in tolerance.outer_iter_mut().enumerate() {
            let (largest_w, sum_w) = filters[k];
            let window = windows.index_axis(Axis(0), k / problem.k_per_group());
            tolerance.zip_mut_with(&window, |t, window| {
                *t += part * (largest_x * sum_w + largest_w * window);
            });
        }
    }
}

/// The largest magnitude of what is finite, and the sum of all.
fn finite(values: &ArrayViewD<'_, f64>) -> (f64, f64) {
    let finite = values.iter().map(|v| v.abs()).filter(|v| v.is_finite());
    finite.fold((0.0, 0.0), |(largest, sum), v| (v.max(largest), sum + v))
}

/// The sums of a convolution of any dimensions.
fn sums_of<const D: usize>(
    problem: &ConvProblem<D>,
    x: &ArrayD<f64>,
    weight: &ArrayD<f64>,
    bias: Option<&ArrayD<f64>>,
    terms: Terms,
) -> ArrayD<f64> {
    let problem = problem.as_conv3d();
    let (x, weight) = (as_volumes(x), as_volumes(weight));
    let within = problem.border.map(|border| within(&x, &border));
    let x = within.as_ref().map_or(x, |within| within.view());
    let mut y = convolve(&x, &weight, bias, &problem, terms).into_dyn();
    while y.ndim() > D + 2 {
        y = y.remove_axis(FIRST);
    }
    y
}

/// Images as volumes that are one voxel deep, sequences as such that are one voxel high as well.
fn as_volumes(x: &ArrayD<f64>) -> ArrayView5<'_, f64> {
    let mut x = x.view();
    while x.ndim() < 5 {
        x = x.insert_axis(FIRST);
    }
    x.into_dimensionality::<Ix5>().expect("volumes")
}

/// Volumes within a border: each element is looked up where the mode of padding says.
fn within(x: &ArrayView5<'_, f64>, border: &Border<3>) -> Array5<f64> {
    // Along an axis, the position in the input; none for a zero.
    let source = |axis: usize, position: usize| {
        let extent = border.inner[axis] as isize;
        let position = position as isize - border.before[axis] as isize;
        let mirrored = (extent - 1) - (extent - 1 - position.abs()).abs();
        let found = match border.mode {
            PaddingMode::Zeros if position < 0 || position >= extent => return None,
            PaddingMode::Zeros => position,
            PaddingMode::Reflect => mirrored,
            PaddingMode::Replicate => position.clamp(0, extent - 1),
            PaddingMode::Circular => position.rem_euclid(extent),
        };
        Some(found as usize)
    };
    let outer = border.outer();
    let sources = [0, 1, 2].map(|axis| -> Vec<Option<usize>> {
        let positions = 0..outer[axis];
        positions.map(|position| source(axis, position)).collect()
    });
    let [d, h, w] = outer;
    Array5::from_shape_fn(
        (x.shape()[0], x.shape()[1], d, h, w),
        |(n, c, z, p, q)| match (sources[0][z], sources[1][p], sources[2][q]) {
            (Some(z), Some(p), Some(q)) => x[(n, c, z, p, q)],
            _ => 0.0,
        },
    )
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::chain::LayerProblem;
    use op_spec::{Conv1dSpec, Conv2dSpec, Padding};

    use super::*;
    use crate::Bounded;
    use crate::data::signed;

    /// A sum of 72 products, of factors rounded to so many bits, and whether the precision's tolerance allows for it.
    fn allows(precision: &Precision, bits: i32) -> bool {
        let shape = [1, 8, 20, 20];
        let (x, weight) = (signed(3, &shape), signed(4, &[16, 8, 3, 3]));
        let spec = Conv2dSpec::default();
        let problem = spec.problem(&shape, weight.shape(), None).unwrap();
        let layer = LayerProblem::Conv2d(problem);
        let wide = weight.mapv(f64::from);
        let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
        let rounded = |values: &ArrayD<f32>| {
            values.mapv(|v| {
                let v = f64::from(v);
                let unit = (v.abs().log2().floor() + 1.0 - f64::from(bits)).exp2();
                (v / unit).round() * unit
            })
        };
        let got = problem.reference(&rounded(&x), &[&rounded(&weight)]);
        let pairs = got.iter().zip(&wanted.values).zip(&wanted.tolerance);
        pairs
            .into_iter()
            .all(|((got, want), t)| (got - want).abs() <= *t)
    }

    #[test]
    fn factors_of_fewer_bits_than_fast_products_have_are_noticed() {
        assert!(allows(&Precision::TF32, 11) && !allows(&Precision::TF32, 8));
        assert!(allows(&Precision::F32, 24) && !allows(&Precision::F32, 16));
    }

    #[test]
    fn a_bias_is_no_factor() {
        let shape = [1, 8, 9, 9];
        let (x, weight) = (signed(3, &shape), signed(4, &[4, 8, 3, 3]));
        let bias = ArrayD::from_elem(vec![4], 1000.0);
        let spec = Conv2dSpec::default();
        let problem = spec.problem(&shape, weight.shape(), Some(&[4])).unwrap();
        let wide = weight.mapv(f64::from);
        let products = sums_of(&problem, &x.mapv(f64::from), &wide, None, Terms::Magnitudes);
        let layer = LayerProblem::Conv2d(problem);
        let precision = Precision::TF32;
        let wanted = Bounded::exact(x.view()).through(&layer, &[&wide, &bias], &precision);
        let errors = products.mapv(|sum| sum * precision.factors);
        let is_within = |parts: f64| {
            let pairs = errors.iter().zip(&wanted.tolerance);
            pairs
                .map(|(error, t)| parts * error <= *t)
                .collect::<Vec<_>>()
        };
        assert!(is_within(1.0).iter().all(|&is| is));
        assert!(!is_within(10.0).contains(&true));
    }

    #[test]
    fn what_is_far_below_its_samples_or_filters_largest_lacks_a_part_of_that() {
        // The second channel is 2^14 times smaller, and has weights that make up for it; both are multiples of `least`.
        let shape = [1, 2, 6, 6];
        let far = f32::exp2(-14.0);
        let (mut x, mut weight) = (signed(3, &shape), signed(4, &[3, 2, 3, 3]));
        x.index_axis_mut(Axis(1), 1).mapv_inplace(|v| v * far);
        weight.index_axis_mut(Axis(1), 1).mapv_inplace(|v| v / far);
        let problem = Conv2dSpec::default()
            .problem(&shape, weight.shape(), None)
            .unwrap();
        let (layer, wide) = (LayerProblem::Conv2d(problem), weight.mapv(f64::from));
        let allows = |part: f64, precision: &Precision| {
            let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
            let rounded = x.mapv(|v| (f64::from(v) / part).round() * part);
            let got = problem.reference(&rounded, &[&wide]);
            let mut pairs = got.iter().zip(&wanted.values).zip(&wanted.tolerance);
            pairs.all(|((got, want), t)| (got - want).abs() <= *t)
        };
        let part = f64::exp2(-33.0);
        assert!(allows(2.0 * part, &Precision::F32) && !allows(256.0 * part, &Precision::F32));
        let without = Precision {
            factors_of_largest: 0.0,
            ..Precision::F32
        };
        assert!(!allows(64.0 * part, &without));
    }

    #[test]
    fn inputs_that_no_power_of_two_brings_into_range_lack_what_is_below_it() {
        // As the kernel of one launch has them: times 2^100, and rounded to multiples of f16's least number.
        let spec = Conv2dSpec::default();
        let wide = signed(4, &[16, 8, 3, 3]).mapv(f64::from);
        let problem = spec.problem(&[1, 8, 20, 20], wide.shape(), None).unwrap();
        let layer = LayerProblem::Conv2d(problem);
        let allows = |least: f64, precision: &Precision| {
            let x = signed(3, &[1, 8, 20, 20]).mapv(|v| v * f32::exp2(-122.0));
            let wanted = Bounded::exact(x.view()).through(&layer, &[&wide], precision);
            let rounded = x.mapv(|v| (f64::from(v) / least).round() * least);
            let got = problem.reference(&rounded, &[&wide]);
            let mut pairs = got.iter().zip(&wanted.values).zip(&wanted.tolerance);
            pairs.all(|((got, want), t)| (got - want).abs() <= *t)
        };
        let least = f64::exp2(-124.0);
        assert!(allows(least, &Precision::F32) && !allows(16.0 * least, &Precision::F32));
        let unlimited = Precision {
            factors_underflow: 0.0,
            ..Precision::F32
        };
        assert!(!allows(least, &unlimited));
    }

    #[test]
    fn factors_lack_what_is_little_beside_the_largest_of_their_own_sample_or_filter() {
        let spec = Conv2dSpec {
            groups: 2,
            ..Conv2dSpec::default()
        };
        // The last sample and the last filter have a large value.
        let large = f32::exp2(30.0);
        let with_large = |mut values: ArrayD<f32>| {
            *values.last_mut().unwrap() = large;
            values
        };
        let mut x = with_large(signed(3, &[2, 4, 6, 5]));
        // What the filter's meets in the first sample.
        x.index_axis_mut(Axis(0), 0)
            .index_axis_mut(Axis(0), 3)
            .fill(0.0);
        let weight = with_large(signed(4, &[6, 2, 3, 2]));
        let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
        let (wide, wide_weight) = (x.mapv(f64::from), weight.mapv(f64::from));
        let layer = LayerProblem::Conv2d(problem);
        let wanted = Bounded::exact(x.view()).through(&layer, &[&wide_weight], &Precision::TF32);
        let allows = |x: &ArrayD<f64>, weight: &ArrayD<f64>| {
            let got = problem.reference(x, &[weight]);
            let mut pairs = got.iter().zip(&wanted.values).zip(&wanted.tolerance);
            pairs.all(|((got, want), t)| (got - want).abs() <= *t)
        };
        // The small values of one sample or filter, off by so many times what they lack.
        let off = |values: &ArrayD<f64>, which: usize, times: f64| {
            let mut values = values.clone();
            let small = values.index_axis_mut(Axis(0), which);
            let lack = f64::from(large) * Precision::TF32.factors_of_largest;
            small
                .into_iter()
                .filter(|v| v.abs() <= 1.0)
                .for_each(|v| *v += times * lack);
            values
        };
        assert!(allows(&off(&wide, 1, 1.0), &wide_weight));
        assert!(allows(&wide, &off(&wide_weight, 5, 1.0)));
        assert!(!allows(&off(&wide, 1, 16.0), &wide_weight));
        assert!(!allows(&wide, &off(&wide_weight, 5, 16.0)));
        assert!(!allows(&off(&wide, 0, 1.0), &wide_weight));
        assert!(!allows(&wide, &off(&wide_weight, 0, 1.0)));
    }

    #[test]
    fn a_convolution_worked_by_hand() {
        // Columns 0 and 2 of the padded row 0 1 2 3 0, then columns 2 and 4.
        let x = array![[[[1.0, 2.0, 3.0]]]].into_dyn();
        let weight = array![[[[10.0, 1.0]]]].into_dyn();
        let bias = array![100.0].into_dyn();
        let spec = Conv2dSpec {
            stride: [1, 2],
            padding: [0, 1].into(),
            dilation: [1, 2],
            ..Conv2dSpec::default()
        };
        let problem = spec
            .problem(x.shape(), weight.shape(), Some(bias.shape()))
            .unwrap();
        let y = problem.reference(&x, &[&weight, &bias]);
        assert_eq!(y, array![[[[102.0, 120.0]]]].into_dyn());
    }
    #[test]
    fn borders_worked_by_hand() {
        let x = array![[[1.0, 2.0, 3.0]]].into_dyn();
        let weight = array![[[100.0, 10.0, 1.0]]].into_dyn();
        let rows = [
            (PaddingMode::Zeros, [12.0, 123.0, 230.0]),
            (PaddingMode::Reflect, [212.0, 123.0, 232.0]),
            (PaddingMode::Replicate, [112.0, 123.0, 233.0]),
            (PaddingMode::Circular, [312.0, 123.0, 231.0]),
        ];
        for (padding_mode, wanted) in rows {
            let spec = Conv1dSpec {
                padding: Padding::Same,
                padding_mode,
                ..Conv1dSpec::default()
            };
            let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
            let y = problem.reference(&x, &[&weight]);
            assert_eq!(y.as_slice(), Some(&wanted[..]), "{}", padding_mode.name());
        }
        // Of an even number of elements, the odd one is at the end.
        let weight = array![[[10.0, 1.0]]].into_dyn();
        let spec = Conv1dSpec {
            padding: Padding::Same,
            ..Conv1dSpec::default()
        };
        let problem = spec.problem(x.shape(), weight.shape(), None).unwrap();
        let y = problem.reference(&x, &[&weight]);
        assert_eq!(y, array![[[12.0, 23.0, 30.0]]].into_dyn());
    }
}
