//! [Group norm](super::group_norm) of one group, then `y = x̂ * weight[i] + bias[i]` with a weight and a bias
//! for each element `i` of a sample.
//!
//! *Condition*: that of the norm times `abs(weight)`, and `abs(y) + abs(bias)`. *Passes on* what the norm
//! does, times `abs(weight)`.

use ndarray::{ArrayD, Axis, Zip};
use op_spec::graph::{Layer, LayerNormLayer};
use op_spec::{LayerNormProblem, LayerNormSpec};
use serde::Deserialize;

use super::operator::{Operator, chained};
use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases, Precision};

impl Operator for LayerNormProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
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

    fn tolerance(
        &self,
        x: &ArrayD<f64>,
        t: ArrayD<f64>,
        y: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        let norm = self.as_group_norm();
        let normalised = norm.reference(x, &[]);
        let mut tolerance = norm.tolerance(x, t, &normalised, &[], precision);
        let (weight, bias) = affine(self, parameters);
        let unit = chained(0) * precision.arithmetic;
        let samples = tolerance.axis_iter_mut(Axis(0));
        for (mut tolerance, y) in samples.zip(y.axis_iter(Axis(0))) {
            if let Some(weight) = weight {
                Zip::from(&mut tolerance)
                    .and(weight)
                    .for_each(|t, weight| *t *= weight.abs());
            }
            if weight.is_some() || bias.is_some() {
                Zip::from(&mut tolerance)
                    .and(y)
                    .for_each(|t, y| *t += unit * (y.abs() + *t));
            }
            if let Some(bias) = bias {
                Zip::from(&mut tolerance)
                    .and(bias)
                    .for_each(|t, bias| *t += unit * bias.abs());
            }
        }
        tolerance
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// The weight and the bias that there are.
fn affine<'a>(
    problem: &LayerNormProblem,
    parameters: &[&'a ArrayD<f64>],
) -> (Option<&'a ArrayD<f64>>, Option<&'a ArrayD<f64>>) {
    let mut parameters = parameters.iter().copied();
    let mut next = |present: bool| present.then(|| parameters.next().expect("a parameter"));
    (next(problem.weight), next(problem.bias))
}

pub(super) const CASES: Cases = Cases {
    kind: "layer_norm",
    smoke: || vec![case("plain", &[2, 6, 5, 7], 1e-5, [true, true])],
    ragged: || {
        vec![
            case("empty_batch", &[0, 6, 5, 7], 1e-5, [true, true]),
            case("empty_image", &[2, 6, 0, 7], 1e-5, [true, true]),
            case("one_value", &[3, 1, 1], 1e-5, [true, true]),
            case("matrix", &[7, 30], 1e-5, [true, false]),
            case("primes", &[3, 7, 11, 13], 1e-3, [true, true]),
            case("no_affine", &[2, 5, 7, 3], 1e-5, [false, false]),
            case("volume", &[2, 6, 3, 5, 7], 1e-5, [true, true]),
            case("long_rows", &[2, 3, 127, 91], 1e-5, [true, true]),
            case("nan_inf", &[5, 3, 7, 9], 1e-5, [true, true]).poisoned(),
            case(
                "mean_1000_times_deviation",
                &[2, 4, 33, 35],
                1e-5,
                [true, true],
            )
            .shifted(577.0),
        ]
    },
    realistic: || {
        vec![
            case("spectrograms", &[2, 64, 62, 62], 1e-5, [true, true]),
            case("images", &[2, 48, 56, 56], 1e-6, [false, false]),
        ]
    },
    golden: "layer_norm",
    read,
};

fn layer(normalized_shape: &[usize], eps: f64, [weight, bias]: [bool; 2]) -> Layer {
    Layer::LayerNorm(LayerNormLayer {
        name: "layer_norm".to_owned(),
        normalized_shape: normalized_shape.to_vec(),
        attributes: LayerNormSpec { eps },
        elementwise_affine: weight,
        bias,
    })
}

fn case(name: &str, x: &[usize], eps: f64, affine: [bool; 2]) -> Case {
    let layer = layer(&x[1..], eps, affine);
    Case::of_layer(&format!("layer_norm/{name}"), layer, x).expect("a chain")
}

/// What golden files say of a layer norm.
#[derive(Deserialize)]
struct Attributes {
    eps: f64,
    normalized_shape: Vec<usize>,
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let Attributes {
        eps,
        normalized_shape,
    } = file.attributes()?;
    let affine = [file.has("gamma"), file.has("beta")];
    let layer = layer(&normalized_shape, eps, affine);
    let names = [("layer_norm.weight", "gamma"), ("layer_norm.bias", "beta")];
    file.case("layer_norm", [layer], &names)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn a_layer_norm_worked_by_hand() {
        let x = array![[[1.0, 3.0]], [[5.0, 5.0]]].into_dyn();
        let weight = array![[2.0, 4.0]].into_dyn();
        let bias = array![[10.0, 20.0]].into_dyn();
        let spec = LayerNormSpec { eps: 3.0 };
        let shape = &[1, 2][..];
        let problem = spec.problem(x.shape(), shape, Some(shape), Some(shape));
        let y = problem.unwrap().reference(&x, &[&weight, &bias]);
        assert_eq!(y, array![[[9.0, 22.0]], [[10.0, 20.0]]].into_dyn());
    }
}
