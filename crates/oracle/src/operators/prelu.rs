//! `y = x` if `x` is above 0, else `y = x * weight[c]`, or `y = x * weight[0]`.
//!
//! *Condition*: `abs(y)` if there is a product, else 0. *Passes on* `t` unchanged, or as `t * abs(weight)`;
//! the larger of both if the input may be on either side of 0.

use ndarray::{ArrayD, ArrayViewMutD, Axis};
use op_spec::PreluProblem;

use super::operator::{Given, Operator, chained};
use crate::cases::{cases, row};
use crate::{Case, Cases, Precision};

impl Operator for PreluProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.to_owned();
        for (mut channel, slope) in channels(self, &mut y, parameters[0]) {
            channel.mapv_inplace(|v| if v > 0.0 { v } else { v * slope });
        }
        y
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { x, y, parameters } = of;
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

/// The parts of a tensor that share a slope, each with its slope.
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

pub(super) const CASES: Cases = cases!(
    "prelu", "name=prelu",
    smoke: "
        plain 2x3x5x7
        each 2x3x5x7 num_parameters=3",
    ragged: "
        empty_batch 0x3x5 num_parameters=3
        matrix 5x13 num_parameters=13
        matrix_one_slope 5x13
        one_value 1x1x1x1
        primes 3x7x11x13x5 num_parameters=7
        primes_one_slope 3x7x11x13x5
        nan_and_infinities 2x7x29x31 num_parameters=7 special",
    realistic: "
        residual_unit 1x16x24x32x32
        face_recognition 2x64x56x56 num_parameters=64",
    more: vec![
        special_slopes("nan_and_infinities_zero 2x3x29x31", &[0.0]),
        special_slopes("special_slopes 2x6x29x31", &[0.0, -0.0, INFINITY, -INFINITY, f32::NAN, 1.5]),
    ]
);

const INFINITY: f32 = f32::INFINITY;

/// A case with these slopes, and an input with NaN, infinities and zeros of both signs.
fn special_slopes(name: &str, slopes: &[f32]) -> Case {
    let line = format!("{name} num_parameters={} special", slopes.len());
    let mut case = row("prelu", "name=prelu", &line);
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
            let problem = PreluSpec::default()
                .problem(&[2, 2], &[slopes.len()])
                .unwrap();
            problem.reference(&x, &[&weight])
        };
        assert_eq!(
            of(&[0.25, -1.0]),
            array![[-0.5, 2.0], [3.0, 4.0]].into_dyn()
        );
        assert_eq!(of(&[0.5]), array![[-1.0, -1.0], [3.0, -2.0]].into_dyn());
    }
}
