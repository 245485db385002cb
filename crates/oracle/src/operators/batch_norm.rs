//! `y = gain[c] * x + shift[c]` with `gain = weight / sqrt(running_var + eps)` and
//! `shift = bias - running_mean * gain`.
//!
//! *Condition*: `abs(gain * x) + abs(shift)`, whose constants are rounded once; they are computed in float64,
//! by PyTorch's files as well, of whose epsilon they are off by `abs(running_mean * gain) + abs(bias)`, which
//! may be far larger than `shift`. *Passes on* `t` as `t * abs(gain)`.

use ndarray::{ArrayD, Axis};
use op_spec::BatchNormProblem;

use super::operator::{Given, Operator, chained};
use crate::cases::{cases, row};
use crate::{Case, Cases, Precision};

impl Operator for BatchNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.to_owned();
        for (c, mut channel) in y.axis_iter_mut(Axis(1)).enumerate() {
            let [mean, variance, weight, bias] = of_channel(self, parameters, c);
            let deviation = (variance + self.eps).sqrt();
            channel.mapv_inplace(|v| (v - mean) / deviation * weight + bias);
        }
        y
    }

    fn tolerance(&self, of: &Given<'_>, mut t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { x, parameters, .. } = of;
        let unit = chained(0) * precision.arithmetic;
        let channels = t.axis_iter_mut(Axis(1)).enumerate();
        for ((c, mut tolerance), x) in channels.zip(x.axis_iter(Axis(1))) {
            let parameters = of_channel(self, parameters, c);
            let [gain, shift] = self.gain_and_shift(parameters, f64::sqrt);
            let [mean, _, _, bias] = parameters;
            let of_constants = chained(0) * f64::exp2(-53.0) * ((mean * gain).abs() + bias.abs());
            tolerance.zip_mut_with(&x, |t, x| {
                let passed_on = *t * gain.abs();
                let own = (gain * x).abs() + passed_on + shift.abs();
                *t = passed_on + unit * own + of_constants;
            });
        }
        t
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// Mean, variance, weight and bias of a channel.
fn of_channel(problem: &BatchNormProblem, parameters: &[&ArrayD<f64>], c: usize) -> [f64; 4] {
    let mut parameters = parameters.iter();
    let present = [true, true, problem.weight, problem.bias];
    let absent = [0.0, 1.0, 1.0, 0.0];
    [0, 1, 2, 3].map(|index| match present[index] {
        true => parameters.next().expect("a value for every parameter")[c],
        false => absent[index],
    })
}

pub(super) const CASES: Cases = cases!(
    "batch_norm", "name=batch_norm",
    smoke: "plain 2x3x5x7",
    ragged: "
        empty_batch 0x3x5
        empty_image 2x3x0x5
        one_value 1x1x1x1
        matrix 5x13 eps=1e-3
        sequence 3x5x101 affine=false
        primes 3x7x11x13x5
        least_eps 2x5x7x9 eps=1.1754943508222875e-38
        nan_inf 2x7x9x11 special
        mean_1000_times_deviation 2x3x9x13 shifted=577",
    realistic: "
        resnet_stem 1x64x112x112
        late_block 2x512x7x7",
    more: vec![special_parameters()]
);

/// Channels without deviation, with an infinite one, with a negative variance, without gain; and a mean that
/// is NaN.
fn special_parameters() -> Case {
    let mut case = row(
        "batch_norm",
        "name=batch_norm",
        "special_parameters 2x7x5x3",
    );
    let [mean, variance, weight, _] = &mut case.parameters[..] else {
        unreachable!("a batch norm with a weight has four parameters");
    };
    mean[5] = f32::NAN;
    for (c, value) in [0.0, f32::INFINITY, -1.0].into_iter().enumerate() {
        variance[c] = value;
    }
    (weight[3], weight[4]) = (0.0, -0.0);
    case.special()
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::BatchNormSpec;

    use super::*;

    #[test]
    fn a_batch_norm_worked_by_hand() {
        let x = array![[1.0, 3.0], [5.0, 5.0]].into_dyn();
        let vector = |a: f64, b: f64| array![a, b].into_dyn();
        let (mean, variance) = (vector(1.0, 5.0), vector(6.0, 13.0));
        let (weight, bias) = (vector(6.0, 8.0), vector(0.5, 1.0));
        let spec = BatchNormSpec::default().eps(3.0);
        let [c, affine] = [&[2][..]; 2];
        let problem = spec.problem(x.shape(), c, c, Some(affine), Some(affine));
        let y = problem
            .unwrap()
            .reference(&x, &[&mean, &variance, &weight, &bias]);
        assert_eq!(y, array![[0.5, -3.0], [8.5, 1.0]].into_dyn());
        let problem = spec.problem(x.shape(), c, c, None, Some(affine)).unwrap();
        let y = problem.reference(&x, &[&mean, &variance, &bias]);
        let third = 4.0 / 3.0;
        assert_eq!(y, array![[0.5, 0.5], [0.5 + third, 1.0]].into_dyn());
    }
}
