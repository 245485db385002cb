//! `y = x` where it is above 0, else `y = x * weight[c]`, or `y = x * weight[0]`.
//!
//! *Condition*: `abs(y)` where there is a product, else none. *Passes on* `t` as it is, or as
//! `t * abs(weight)`; where the input may be on either side of 0, as the larger.

use ndarray::{ArrayD, ArrayViewMutD, Axis};
use op_spec::PreluProblem;
use op_spec::graph::Layer;
use serde::Deserialize;

use super::operator::{Operator, chained};
use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases, Precision};

impl Operator for PreluProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.to_owned();
        for (mut channel, slope) in channels(self, &mut y, parameters[0]) {
            channel.mapv_inplace(|v| if v > 0.0 { v } else { v * slope });
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
        // The slope of each element.
        let mut slopes = ArrayD::zeros(y.raw_dim());
        for (mut channel, slope) in channels(self, &mut slopes, parameters[0]) {
            channel.fill(slope.abs());
        }
        let mut tolerance = t;
        let values = x.iter().zip(y).zip(&slopes);
        for (t, ((x, y), &slope)) in tolerance.iter_mut().zip(values) {
            if x - *t <= 0.0 {
                *t *= if x + *t <= 0.0 { slope } else { slope.max(1.0) };
                *t += chained(0) * precision.arithmetic * (y.abs() + *t);
            }
        }
        tolerance
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// The parts of a tensor that have a slope each, with it.
fn channels<'a>(
    problem: &PreluProblem,
    values: &'a mut ArrayD<f64>,
    weight: &'a ArrayD<f64>,
) -> Vec<(ArrayViewMutD<'a, f64>, f64)> {
    match problem.num_parameters {
        1 => vec![(values.view_mut(), weight[0])],
        _ => values
            .axis_iter_mut(Axis(1))
            .zip(weight.iter().copied())
            .collect(),
    }
}

pub(super) const CASES: Cases = Cases {
    kind: "prelu",
    smoke: || {
        vec![
            case("plain", &[2, 3, 5, 7], 1),
            case("each", &[2, 3, 5, 7], 3),
        ]
    },
    ragged: || {
        vec![
            case("empty_batch", &[0, 3, 5], 3),
            case("matrix", &[5, 13], 13),
            case("matrix_one_slope", &[5, 13], 1),
            case("one_value", &[1, 1, 1, 1], 1),
            case("primes", &[3, 7, 11, 13, 5], 7),
            case("primes_one_slope", &[3, 7, 11, 13, 5], 1),
            case("nan_and_infinities", &[2, 7, 29, 31], 7).special(),
            special_slopes("nan_and_infinities_zero", &[2, 3, 29, 31], &[0.0]),
            special_slopes(
                "special_slopes",
                &[2, 6, 29, 31],
                &[0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.5],
            ),
        ]
    },
    realistic: || {
        vec![
            case("residual_unit", &[1, 16, 24, 32, 32], 1),
            case("face_recognition", &[2, 64, 56, 56], 64),
        ]
    },
    golden: "prelu",
    read,
};

fn case(name: &str, x: &[usize], num_parameters: usize) -> Case {
    let layer = Layer::prelu("prelu", num_parameters);
    Case::of_layer(&format!("prelu/{name}"), layer, x).expect("a chain")
}

/// These slopes, of NaN, infinities, zeros of both signs, and what else there is.
fn special_slopes(name: &str, x: &[usize], slopes: &[f32]) -> Case {
    let mut case = case(name, x, slopes.len()).special();
    for (slope, &value) in case.parameters[0].iter_mut().zip(slopes) {
        *slope = value;
    }
    for (index, value) in case.x.iter_mut().enumerate() {
        *value = match index % 23 {
            4 => 0.0,
            8 => -0.0,
            _ => *value,
        };
    }
    case
}

/// What golden files say of a prelu.
#[derive(Deserialize)]
struct Attributes {
    num_parameters: usize,
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let Attributes { num_parameters } = file.attributes()?;
    let layer = Layer::prelu("prelu", num_parameters);
    file.case("prelu", [layer], &[("prelu.weight", "weight")])
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::PreluSpec;

    use super::*;

    #[test]
    fn a_prelu_worked_by_hand() {
        let x = array![[-2.0, -2.0], [3.0, -4.0]].into_dyn();
        let of = |slopes: &[f64]| {
            let weight = ndarray::Array1::from(slopes.to_vec()).into_dyn();
            let problem = PreluSpec.problem(&[2, 2], &[slopes.len()]).unwrap();
            problem.reference(&x, &[&weight])
        };
        assert_eq!(
            of(&[0.25, -1.0]),
            array![[-0.5, 2.0], [3.0, 4.0]].into_dyn()
        );
        assert_eq!(of(&[0.5]), array![[-1.0, -1.0], [3.0, -2.0]].into_dyn());
    }
}
