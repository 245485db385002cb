//! [Group norm](super::group_norm) with one group, followed by `y = x̂ * weight[i] + bias[i]` with a weight
//! and a bias for each element `i` of a row. A row is a sample or the last axes of one.
//!
//! *Condition*: that of the norm times `abs(weight)`, and `abs(y) + abs(bias)`. *Passes on* the norm's error
//! times `abs(weight)`.

use ndarray::{ArrayD, Axis, Zip};
use op_spec::LayerNormProblem;

use super::operator::{Given, Operator, chained};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for LayerNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        if let Some(rows) = rows(self) {
            return to_front(&rows.reference(&to_end(x), parameters));
        }
        let mut y = self.as_group_norm().reference(x, &[]);
        let (weight, bias) = affine(self, parameters);
        for mut sample in y.axis_iter_mut(Axis(0)) {
            if let Some(weight) = weight {
                sample *= weight;
            }
            if let Some(bias) = bias {
                sample += bias;
            }
        }
        y
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { x, y, parameters } = of;
        if let Some(rows) = rows(self) {
            let of = Given {
                x: &to_end(x),
                y: &to_end(y),
                parameters,
            };
            return to_front(&rows.tolerance(&of, to_end(&t), precision));
        }
        let norm = self.as_group_norm();
        let normalised = norm.reference(x, &[]);
        let of_norm = Given {
            y: &normalised,
            parameters: &[],
            ..*of
        };
        let mut tolerance = norm.tolerance(&of_norm, t, precision);
        let (weight, bias) = affine(self, parameters);
        let unit = chained(0) * precision.arithmetic;
        let samples = tolerance.axis_iter_mut(Axis(0));
        for (mut tolerance, y) in samples.zip(y.axis_iter(Axis(0))) {
            if let Some(weight) = weight {
                Zip::from(&mut tolerance)
                    .and_broadcast(weight)
                    .for_each(|t, weight| *t *= weight.abs());
            }
            if weight.is_some() || bias.is_some() {
                Zip::from(&mut tolerance)
                    .and(y)
                    .for_each(|t, y| *t += unit * (y.abs() + *t));
            }
            if let Some(bias) = bias {
                Zip::from(&mut tolerance)
                    .and_broadcast(bias)
                    .for_each(|t, bias| *t += unit * bias.abs());
            }
        }
        tolerance
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// Converts a norm over the channels to one over rows of a tensor with the channels last.
fn rows(problem: &LayerNormProblem) -> Option<LayerNormProblem> {
    let mut rows = *problem;
    rows.of_channels = false;
    problem.of_channels.then_some(rows)
}

/// Moves the channels behind all other axes.
fn to_end(x: &ArrayD<f64>) -> ArrayD<f64> {
    let mut axes: Vec<usize> = (0..x.ndim()).collect();
    axes[1..].rotate_left(1);
    x.view()
        .permuted_axes(axes)
        .as_standard_layout()
        .into_owned()
}

/// Moves the last axis to the position of the channels.
fn to_front(x: &ArrayD<f64>) -> ArrayD<f64> {
    let mut axes: Vec<usize> = (0..x.ndim()).collect();
    axes[1..].rotate_right(1);
    x.view()
        .permuted_axes(axes)
        .as_standard_layout()
        .into_owned()
}

/// Weight and bias, if present.
fn affine<'a>(
    problem: &LayerNormProblem,
    parameters: &[&'a ArrayD<f64>],
) -> (Option<&'a ArrayD<f64>>, Option<&'a ArrayD<f64>>) {
    let mut parameters = parameters.iter().copied();
    let mut next = |present: bool| present.then(|| parameters.next().expect("a parameter"));
    (next(problem.weight), next(problem.bias))
}

pub(super) const CASES: Cases = cases!(
    "layer_norm", "name=layer_norm",
    smoke: "plain 2x6x5x7 normalized_shape=[6,5,7]",
    ragged: "
        empty_batch 0x6x5x7 normalized_shape=[6,5,7]
        empty_image 2x6x0x7 normalized_shape=[6,0,7]
        one_value 3x1x1 normalized_shape=[1,1]
        matrix 7x30 normalized_shape=[30] bias=false
        primes 3x7x11x13 normalized_shape=[7,11,13] eps=1e-3
        no_affine 2x5x7x3 normalized_shape=[5,7,3] elementwise_affine=false bias=false
        volume 2x6x3x5x7 normalized_shape=[6,3,5,7]
        long_rows 2x3x127x91 normalized_shape=[3,127,91]
        nan_inf 5x3x7x9 normalized_shape=[3,7,9] poisoned
        last_axis 3x5x6x7 normalized_shape=[7]
        last_axes 2x5x6x8 normalized_shape=[6,8] eps=1e-3
        vectors 2x3x4x64 normalized_shape=[64] bias=false
        rows_of_a_block 2x2x1x1111 normalized_shape=[1111] elementwise_affine=false bias=false
        rows_of_batches 1x2x3x8200 normalized_shape=[3,8200] shifted=577
        rows_of_one_value 2x3x5x1 normalized_shape=[1]
        empty_rows 2x3x0 normalized_shape=[0]
        volume_rows 2x3x4x5x6 normalized_shape=[5,6] special
        channels 2x13x5x7 normalized_shape=[13] dim=1
        channels_of_one_pixel 3x13x1x1 normalized_shape=[13] dim=1
        channels_of_vectors 7x30 normalized_shape=[30] dim=1 elementwise_affine=false bias=false
        channels_of_volumes 2x6x3x4x5 normalized_shape=[6] dim=1 bias=false
        channels_of_sequences 2x40x19 normalized_shape=[40] dim=1 elementwise_affine=false bias=false
        channels_of_no_pixels 2x5x0x7 normalized_shape=[5] dim=1
        one_channel 2x1x5x7 normalized_shape=[1] dim=1
        channels_nan_inf 2x16x5x7 normalized_shape=[16] dim=1 special
        rows_1000_times_deviation 2x4x33x36 normalized_shape=[36] shifted=577
        mean_1000_times_deviation 2x4x33x35 normalized_shape=[4,33,35] shifted=577",
    realistic: "
        channels_last 2x14x14x384 normalized_shape=[384]
        conv_next 2x96x56x56 normalized_shape=[96] dim=1 eps=1e-6
        spectrograms 2x64x62x62 normalized_shape=[64,62,62]
        images 2x48x56x56 normalized_shape=[48,56,56] eps=1e-6 elementwise_affine=false bias=false"
);

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::LayerNormSpec;

    use super::*;

    #[test]
    fn a_layer_norm_worked_by_hand() {
        let x = array![[[1.0, 3.0]], [[5.0, 5.0]]].into_dyn();
        let weight = array![[2.0, 4.0]].into_dyn();
        let bias = array![[10.0, 20.0]].into_dyn();
        let spec = LayerNormSpec::default().eps(3.0);
        let shape = &[1, 2][..];
        let problem = spec.problem(x.shape(), shape, Some(shape), Some(shape));
        let y = problem.unwrap().reference(&x, &[&weight, &bias]);
        assert_eq!(y, array![[[9.0, 22.0]], [[10.0, 20.0]]].into_dyn());
    }
}
