//! `y = x * scale[c]`.
//!
//! *Condition*: `abs(y)`. *Passes on* `t` as `t * abs(scale)`.

use ndarray::{ArrayD, Axis};
use op_spec::ScaleProblem;
use op_spec::graph::Layer;

use super::operator::{Operator, chained};
use crate::{Case, Cases, Precision};

impl Operator for ScaleProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.to_owned();
        for (mut channel, &factor) in y.axis_iter_mut(Axis(1)).zip(parameters[0]) {
            channel *= factor;
        }
        y
    }

    fn tolerance(
        &self,
        _: &ArrayD<f64>,
        t: ArrayD<f64>,
        y: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        let passed_on = self.reference(&t, &[&parameters[0].mapv(f64::abs)]);
        let magnitudes = y.mapv(f64::abs) + &passed_on;
        magnitudes * (chained(0) * precision.arithmetic) + passed_on
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

pub(super) const CASES: Cases = Cases {
    kind: "scale",
    smoke: || vec![case("plain", &[2, 3, 5, 7])],
    ragged: || {
        vec![
            case("empty_batch", &[0, 3, 5]),
            case("matrix", &[5, 13]),
            case("one_value", &[1, 1, 1, 1]),
            case("primes", &[3, 7, 11, 13, 5]),
        ]
    },
    realistic: || {
        vec![
            case("layer_scale", &[2, 96, 56, 56]),
            case("layer_scale_of_a_late_block", &[2, 384, 14, 14]),
        ]
    },
    golden: "scale",
    read: |file| file.case("scale", [Layer::scale("scale")], &[("scale", "scale")]),
};

fn case(name: &str, x: &[usize]) -> Case {
    Case::of_layer(&format!("scale/{name}"), Layer::scale("scale"), x).expect("a chain")
}
