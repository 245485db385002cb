//! `y = gain[c] * x + shift[c]` with `gain = weight / sqrt(running_var + eps)` and
//! `shift = bias - running_mean * gain`.
//!
//! *Condition*: `abs(gain * x) + abs(shift)`. Both constants are rounded once. They are computed in float64,
//! as in PyTorch's files, with an error relative to `abs(running_mean * gain) + abs(bias)`, which may be far
//! larger than `shift`. *Passes on* `t` as `t * abs(gain)`.
//!
//! With the batch's statistics it is a [group norm](super::group_norm) of one sample, whose groups are the
//! channels of all samples.

use launch_config::norm::{SPLIT_ELEMENTS, STATS_THREADS};
use ndarray::{ArrayD, Axis};
use op_spec::{BatchNormProblem, GroupNormProblem};

use super::group_norm::{Chained, longest_chain};
use super::operator::{Given, Operator, chained};
use crate::cases::{cases, row};
use crate::{Case, Cases, Precision};

impl Operator for BatchNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        if self.of_batch {
            let y = of_batch(self).reference(&swapped(x), parameters);
            return swapped(&y);
        }
        let mut y = x.to_owned();
        for (c, mut channel) in y.axis_iter_mut(Axis(1)).enumerate() {
            let [mean, variance, weight, bias] = of_channel(self, parameters, c);
            let deviation = (variance + self.eps).sqrt();
            channel.mapv_inplace(|v| (v - mean) / deviation * weight + bias);
        }
        y
    }

    fn tolerance(&self, of: &Given<'_>, mut t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { x, y, parameters } = of;
        if self.of_batch {
            let (x, y) = (&swapped(x), &swapped(y));
            let of = Given { x, y, parameters };
            let unit = chained(longest_chain_of_batch(self)) * precision.arithmetic;
            return swapped(&of_batch(self).tolerance_in(&of, swapped(&t), unit));
        }
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

/// The norm with the batch's statistics as a norm of one sample, for a tensor with the channels first.
fn of_batch(problem: &BatchNormProblem) -> GroupNormProblem {
    let mut norm = problem.as_group_norm();
    (norm.shape.n, norm.shape.spatial) = (1, problem.shape.n * problem.shape.spatial);
    norm
}

/// Swaps the channel and batch axes.
fn swapped(x: &ArrayD<f64>) -> ArrayD<f64> {
    let mut x = x.view();
    x.swap_axes(0, 1);
    x.as_standard_layout().into_owned()
}

/// The longest chain of additions: within a channel of a sample, then one thread's sum of these results,
/// then the tree over the block.
fn longest_chain_of_batch(problem: &BatchNormProblem) -> usize {
    let results = problem.shape.n * problem.shape.spatial.div_ceil(SPLIT_ELEMENTS as usize);
    let of_thread = results.div_ceil(STATS_THREADS as usize);
    longest_chain(problem.shape.spatial) + of_thread + STATS_THREADS.ilog2() as usize
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
        of_batch 3x7x11x13 training=true
        of_batch_empty_batch 0x3x5 training=true
        of_batch_matrix 37x13 training=true affine=false
        of_batch_untracked 5x3x101 track_running_stats=false eps=1e-3
        of_batch_volume 2x3x5x7x9 track_running_stats=false affine=false
        of_batch_long_rows 2x2x127x257 training=true
        of_batch_mean_1000_times_deviation 4x3x9x13 training=true shifted=577
        nan_inf 2x7x9x11 special
        mean_1000_times_deviation 2x3x9x13 shifted=577",
    realistic: "
        resnet_stem 1x64x112x112
        late_block 2x512x7x7
        of_batch_late_block 4x256x7x7 training=true",
    more: vec![special_parameters()]
);

/// Channels with variance 0, infinite variance, negative variance, and weight 0; and a mean of NaN.
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
        let c = &[2][..];
        let (running, affine) = (Some([c; 2]), Some(c));
        let problem = spec.problem(x.shape(), running, affine, affine);
        let y = problem
            .unwrap()
            .reference(&x, &[&mean, &variance, &weight, &bias]);
        assert_eq!(y, array![[0.5, -3.0], [8.5, 1.0]].into_dyn());
        let problem = spec.problem(x.shape(), running, None, affine).unwrap();
        let y = problem.reference(&x, &[&mean, &variance, &bias]);
        let third = 4.0 / 3.0;
        assert_eq!(y, array![[0.5, 0.5], [0.5 + third, 1.0]].into_dyn());
    }

    #[test]
    fn a_batch_norm_by_the_batch_worked_by_hand() {
        let x = array![[1.0, 3.0], [5.0, 5.0]].into_dyn();
        let (weight, bias) = (array![8.0, 2.0].into_dyn(), array![0.5, 1.0].into_dyn());
        let spec = BatchNormSpec::default().eps(12.0);
        let problem = spec.problem(x.shape(), None, Some(&[2]), Some(&[2]));
        let y = problem.unwrap().reference(&x, &[&weight, &bias]);
        let of_second = 2.0 / 13.0_f64.sqrt();
        let expected = array![[-3.5, 1.0 - of_second], [4.5, 1.0 + of_second]].into_dyn();
        assert!((y - expected).iter().all(|off| off.abs() < 1e-12));
    }
}
