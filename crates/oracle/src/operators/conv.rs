//! `y[n, k, p, q] = bias[k] + sum over c, r, s of weight[k, c, r, s] * x[n, c, p', q']` with
//! `p' = p * stride - padding + r * dilation`, `q'` likewise, and zeros outside the image, or what the mode of padding puts
//! there. A convolution of volumes has one dimension more, one of sequences one less; both are done as one of volumes.
//!
//! *Condition*: `sum of abs(x * w) + abs(bias)`; of products whose factors are rounded, what these lack comes on top, in parts of the
//! same, and for what an input lacks however small it is, this times `sum of abs(w)` over the whole filter; so does what factors lack in
//! parts of the largest of their sample or filter, that of a filter times `sum of abs(x)`. *Passes on* `t` as `sum of t * abs(w)`.

mod cases;
mod golden;
mod sequences;

use ndarray::{Array5, ArrayD, ArrayView5, ArrayViewD, Axis, Ix5, IxDyn};
use op_spec::{Border, ConvProblem, PaddingMode};
use rayon::prelude::*;

use super::operator::{Operator, chained};
use crate::{Bounded, Precision};

pub(super) use cases::{CONV2D, CONV3D};
pub(crate) use golden::read_layer;
pub(super) use sequences::CONV1D;

impl<const D: usize> Operator for ConvProblem<D> {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let problem = self.as_conv3d();
        let weight = as_volumes(parameters[0]).into_dimensionality::<Ix5>();
        let weight = weight.expect("a filter of volumes");
        let bias = self.bias.then(|| parameters[1]);
        let x = as_volumes(x);
        let x = match &problem.border {
            Some(border) => within(&x, border),
            None => x,
        };
        let mut y = convolve(&x, &weight.view(), bias, &problem).into_dyn();
        while y.ndim() > D + 2 {
            y = y.remove_axis(FIRST);
        }
        y
    }

    fn tolerance(
        &self,
        x: &Bounded,
        _: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        let magnitudes: Vec<_> = parameters.iter().map(|v| v.mapv(f64::abs)).collect();
        let magnitudes: Vec<_> = magnitudes.iter().collect();
        let mut tolerance = self.reference(&x.values.mapv(f64::abs), &magnitudes);
        let unit = chained(self.reduction()) * precision.products + precision.factors;
        tolerance *= unit;
        if x.tolerance.iter().any(|&t| t != 0.0) {
            let mut without_bias = *self;
            without_bias.bias = false;
            let passed_on = without_bias.reference(&x.tolerance, &magnitudes);
            tolerance += &(passed_on * (1.0 + unit));
        }
        if precision.factors_underflow != 0.0 {
            let channels = tolerance.axis_iter_mut(Axis(1));
            for (mut tolerance, filter) in channels.zip(magnitudes[0].outer_iter()) {
                // An infinite element makes the result infinite, or is outside.
                let finite = filter.iter().filter(|w| w.is_finite());
                tolerance += precision.factors_underflow * finite.sum::<f64>();
            }
        }
        if precision.factors_of_largest != 0.0 {
            tolerance += &(of_largest(self, x, magnitudes[0]) * precision.factors_of_largest);
        }
        tolerance
    }

    fn cost(&self) -> u64 {
        (self.output_shape().elements() as u64).saturating_mul(self.reduction() as u64)
    }
}

/// What results are off by where each factor is off by the largest finite magnitude of its sample, or of its filter, of those that
/// `filters` are.
fn of_largest<const D: usize>(
    problem: &ConvProblem<D>,
    x: &Bounded,
    filters: &ArrayD<f64>,
) -> ArrayD<f64> {
    let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
    let largest = |values: ArrayViewD<'_, f64>| {
        let largest = values.iter().copied().map(finite).fold(0.0, f64::max);
        largest.max(LEAST_LARGEST)
    };
    let magnitudes = x.values.mapv(f64::abs) + &x.tolerance;
    // One filter of ones for each group: the sums of the windows' magnitudes.
    let mut windows = *problem;
    (windows.k, windows.bias) = (problem.groups, false);
    let mut shape = filters.shape().to_vec();
    shape[0] = problem.groups;
    let windows = windows.reference(&magnitudes.mapv(finite), &[&ArrayD::ones(shape)]);
    // Of as many samples as there are, which need not be the problem's.
    let mut shape = windows.shape().to_vec();
    shape[1] = problem.k;
    let mut off = ArrayD::zeros(shape);
    for ((inputs, x), mut off) in
        (windows.outer_iter().zip(magnitudes.outer_iter())).zip(off.outer_iter_mut())
    {
        let of_sample = largest(x);
        for (k, (filter, mut off)) in filters.outer_iter().zip(off.outer_iter_mut()).enumerate() {
            let inputs = inputs.index_axis(Axis(0), k / problem.k_per_group());
            let weights: f64 = filter.iter().copied().map(finite).sum();
            off.assign(&(&inputs * largest(filter) + of_sample * weights));
        }
    }
    off
}

/// Below this kernels scale all largest values alike, by `2^126`: f32 has no larger power of two whose reciprocal is normal.
const LEAST_LARGEST: f64 = f32::MIN_POSITIVE as f64 * 256.0;

/// The first spatial axis.
const FIRST: Axis = Axis(2);

/// Images as volumes that are one voxel deep, sequences as such that are one voxel high as well.
fn as_volumes(x: &ArrayD<f64>) -> ArrayD<f64> {
    let mut x = x.clone();
    while x.ndim() < 5 {
        x = x.insert_axis(FIRST);
    }
    x
}

/// Volumes within a border: each element is looked up where the mode of padding says.
fn within(x: &ArrayD<f64>, border: &Border<3>) -> ArrayD<f64> {
    let [d, h, w] = border.outer();
    let shape = [x.shape()[0], x.shape()[1], d, h, w];
    ArrayD::from_shape_fn(IxDyn(&shape), |at| {
        let mut source = [at[0], at[1], 0, 0, 0];
        for axis in 0..3 {
            let extent = border.inner[axis] as isize;
            let position = at[axis + 2] as isize - border.before[axis] as isize;
            let mirrored = (extent - 1) - (extent - 1 - position.abs()).abs();
            let found = match border.mode {
                PaddingMode::Zeros if position < 0 || position >= extent => return 0.0,
                PaddingMode::Zeros => position,
                PaddingMode::Reflect => mirrored,
                PaddingMode::Replicate => position.clamp(0, extent - 1),
                PaddingMode::Circular => position.rem_euclid(extent),
            };
            source[axis + 2] = found as usize;
        }
        x[&source[..]]
    })
}

fn convolve(
    x: &ArrayD<f64>,
    weight: &ArrayView5<'_, f64>,
    bias: Option<&ArrayD<f64>>,
    problem: &ConvProblem<3>,
) -> Array5<f64> {
    let [z, p, q] = problem.output;
    let mut y = Array5::zeros((x.shape()[0], problem.k, z, p, q));
    let x = x.as_standard_layout();
    let x = x.as_slice().expect("standard layout is contiguous");
    let rows = y.as_slice_mut().expect("a new array is contiguous");
    // One task per plane of an output channel; its rows stay in the cache while they are summed.
    rows.par_chunks_mut(p * q)
        .enumerate()
        .for_each(|(plane, rows)| {
            let z = plane % problem.output[0];
            let k = plane / problem.output[0] % problem.k;
            let n = plane / problem.output[0] / problem.k;
            for (p, row) in rows.chunks_exact_mut(q).enumerate() {
                row.fill(bias.map_or(0.0, |bias| bias[k]));
                add_taps(row, problem, x, weight, [n, k, z, p]);
            }
        });
    y
}

/// Adds to one output row what every filter element contributes to it.
fn add_taps(
    row: &mut [f64],
    problem: &ConvProblem<3>,
    x: &[f64],
    weight: &ArrayView5<'_, f64>,
    [n, k, z, p]: [usize; 4],
) {
    let [d, h, w] = problem.input;
    let [t_len, r_len, s_len] = problem.kernel_size;
    let first_channel = k / problem.k_per_group() * problem.c_per_group();
    for c in 0..problem.c_per_group() {
        for t in 0..t_len {
            let Some(in_z) = input_position(problem, 0, z, t) else {
                continue;
            };
            for r in 0..r_len {
                let Some(in_p) = input_position(problem, 1, p, r) else {
                    continue;
                };
                let channel = n * problem.c + first_channel + c;
                let start = ((channel * d + in_z) * h + in_p) * w;
                let input_row = &x[start..start + w];
                for s in 0..s_len {
                    add_tap(row, input_row, weight[[k, c, t, r, s]], problem, s);
                }
            }
        }
    }
}

/// `row[q] += weight * input_row[q * stride - padding + s * dilation]` wherever that is inside.
fn add_tap(row: &mut [f64], input_row: &[f64], weight: f64, problem: &ConvProblem<3>, s: usize) {
    let (stride, padding) = (problem.stride[2], problem.padding[2]);
    let offset = s * problem.dilation[2];
    // The first output whose input is not left of the row, and that input.
    let first = padding.saturating_sub(offset).div_ceil(stride);
    let start = first * stride + offset - padding.min(first * stride + offset);
    let (Some(outputs), Some(inputs)) = (row.get_mut(first..), input_row.get(start..)) else {
        return;
    };
    if stride == 1 {
        // The same as below, in a form that becomes vector instructions.
        for (y, x) in outputs.iter_mut().zip(inputs) {
            *y += weight * x;
        }
    } else {
        for (y, x) in outputs.iter_mut().zip(inputs.iter().step_by(stride)) {
            *y += weight * x;
        }
    }
}

/// Where tap `tap` of output position `output` reads, if that is inside the input.
fn input_position(
    problem: &ConvProblem<3>,
    axis: usize,
    output: usize,
    tap: usize,
) -> Option<usize> {
    let padded = output * problem.stride[axis] + tap * problem.dilation[axis];
    let position = padded.checked_sub(problem.padding[axis])?;
    (position < problem.input[axis]).then_some(position)
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::chain::LayerProblem;
    use op_spec::{Conv1dSpec, Conv2dSpec, Padding};

    use super::*;
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
