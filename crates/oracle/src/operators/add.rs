//! `y = x + residual`.
//!
//! *Condition*: `abs(y)`. *Passes on* `t` as it is, to which that of the residual has been added.

use ndarray::ArrayD;
use op_spec::AddProblem;
use op_spec::graph::Layer;

use super::operator::{Operator, chained};
use crate::{Case, Cases, Precision};

impl Operator for AddProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        x + parameters[0]
    }

    fn tolerance(
        &self,
        _: &ArrayD<f64>,
        t: ArrayD<f64>,
        y: &ArrayD<f64>,
        _: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        let magnitudes = y.mapv(f64::abs) + &t;
        magnitudes * (chained(0) * precision.arithmetic) + &t
    }

    fn cost(&self) -> u64 {
        self.len as u64
    }
}

pub(super) const CASES: Cases = Cases {
    kind: "add",
    smoke: || vec![case("plain", &[2, 3, 5, 7])],
    ragged: || {
        vec![
            case("empty_batch", &[0, 3, 5]),
            case("matrix", &[5, 13]),
            case("one_value", &[1, 1, 1, 1]),
            case("primes", &[3, 7, 11, 13, 5]),
            case("nan_and_infinities", &[2, 3, 29, 31]).special(),
            // The residual takes most of the value away, whose rounding is left.
            cancelled("cancelled", &[2, 5, 41]),
        ]
    },
    realistic: || {
        vec![
            case("bottleneck", &[2, 256, 56, 56]),
            case("last_block", &[2, 512, 7, 7]),
        ]
    },
    golden: "add",
    read: |file| file.case("add", [Layer::add("residual")], &[("residual", "residual")]),
};

fn case(name: &str, x: &[usize]) -> Case {
    Case::of_layer(&format!("add/{name}"), Layer::add("residual"), x).expect("a chain")
}

fn cancelled(name: &str, x: &[usize]) -> Case {
    let mut case = case(name, x);
    let residual = case.x.mapv(|v| -v * 0.999);
    case.inputs = vec![residual];
    case
}
