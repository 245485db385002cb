//! `y = gain[c] * x + shift[c]` with `gain = weight / sqrt(running_var + eps)` and
//! `shift = bias - running_mean * gain`.
//!
//! *Condition*: `abs(gain * x) + abs(shift)`, whose constants are rounded once; they are computed in float64,
//! by PyTorch's files as well, of whose epsilon they are off by `abs(running_mean * gain) + abs(bias)`, which
//! may be far larger than `shift`. *Passes on* `t` as `t * abs(gain)`.

use ndarray::{ArrayD, Axis};
use op_spec::graph::{BatchNormLayer, Layer};
use op_spec::{BatchNormProblem, BatchNormSpec};
use serde::Deserialize;

use super::operator::{Operator, chained};
use crate::golden_file::{GoldenFlaw, Reader};
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

    fn tolerance(
        &self,
        x: &ArrayD<f64>,
        mut t: ArrayD<f64>,
        _: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
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

pub(super) const CASES: Cases = Cases {
    kind: "batch_norm",
    smoke: || vec![case("plain", &[2, 3, 5, 7], 1e-5, true)],
    ragged: || {
        vec![
            case("empty_batch", &[0, 3, 5], 1e-5, true),
            case("empty_image", &[2, 3, 0, 5], 1e-5, true),
            case("one_value", &[1, 1, 1, 1], 1e-5, true),
            case("matrix", &[5, 13], 1e-3, true),
            case("sequence", &[3, 5, 101], 1e-5, false),
            case("primes", &[3, 7, 11, 13, 5], 1e-5, true),
            case(
                "least_eps",
                &[2, 5, 7, 9],
                f64::from(f32::MIN_POSITIVE),
                true,
            ),
            case("nan_inf", &[2, 7, 9, 11], 1e-5, true).special(),
            special_parameters(),
            case("mean_1000_times_deviation", &[2, 3, 9, 13], 1e-5, true).shifted(577.0),
        ]
    },
    realistic: || {
        vec![
            case("resnet_stem", &[1, 64, 112, 112], 1e-5, true),
            case("late_block", &[2, 512, 7, 7], 1e-5, true),
        ]
    },
    golden: "batch_norm",
    read,
};

fn layer(eps: f64, affine: bool) -> Layer {
    Layer::BatchNorm(BatchNormLayer {
        name: "batch_norm".to_owned(),
        attributes: BatchNormSpec { eps },
        affine,
    })
}

fn case(name: &str, x: &[usize], eps: f64, affine: bool) -> Case {
    Case::of_layer(&format!("batch_norm/{name}"), layer(eps, affine), x).expect("a chain")
}

/// Channels without deviation, with an infinite one, with a negative variance, without gain; and a mean that
/// is NaN.
fn special_parameters() -> Case {
    let mut case = case("special_parameters", &[2, 7, 5, 3], 1e-5, true);
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

/// What golden files say of a batch norm.
#[derive(Deserialize)]
struct Attributes {
    eps: f64,
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let attributes: Attributes = file.attributes()?;
    let layer = layer(attributes.eps, file.has("gamma"));
    let names = [
        ("batch_norm.running_mean", "running_mean"),
        ("batch_norm.running_var", "running_var"),
        ("batch_norm.weight", "gamma"),
        ("batch_norm.bias", "beta"),
    ];
    file.case("batch_norm", [layer], &names)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn a_batch_norm_worked_by_hand() {
        let x = array![[1.0, 3.0], [5.0, 5.0]].into_dyn();
        let vector = |a: f64, b: f64| array![a, b].into_dyn();
        let (mean, variance) = (vector(1.0, 5.0), vector(6.0, 13.0));
        let (weight, bias) = (vector(6.0, 8.0), vector(0.5, 1.0));
        let spec = BatchNormSpec { eps: 3.0 };
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
