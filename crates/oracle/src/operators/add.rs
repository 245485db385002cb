//! `y = x + residual`. The addition of a constant is a [pointwise function](super::pointwise).
//!
//! *Condition*: `abs(y)`. *Passes on* `t` as it is, to which that of the residual has been added.

use ndarray::ArrayD;
use op_spec::AddProblem;

use super::operator::{Given, Operator, chained};
use crate::cases::{cases, row, rows};
use crate::{Case, Cases, Precision};

impl Operator for AddProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        x + parameters[0]
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let y = of.y;
        let magnitudes = y.mapv(f64::abs) + &t;
        magnitudes * (chained(0) * precision.arithmetic) + &t
    }

    fn cost(&self) -> u64 {
        self.len as u64
    }
}

pub(super) const CASES: Cases = Cases {
    read: |file| match file.has("residual") {
        true => file.case("add", "input=residual"),
        false => file.case("add", ""),
    },
    ..OF_RESIDUALS
};

const OF_RESIDUALS: Cases = cases!(
    "add", "input=residual",
    smoke: "plain 2x3x5x7",
    ragged: "
        empty_batch 0x3x5
        matrix 5x13
        one_value 1x1x1x1
        primes 3x7x11x13x5
        nan_and_infinities 2x3x29x31 special",
    realistic: "
        bottleneck 2x256x56x56
        last_block 2x512x7x7",
    more: [rows("add", "value=0.3", "
        value/plain 2x3x50
        value/one_value 1x1
        value/empty 0x3
        value/primes 3x1031
        value/nan_and_infinities 2x3x211 special"), vec![cancelled()]].concat()
);

/// The residual takes most of the value away, whose rounding is left.
fn cancelled() -> Case {
    let mut case = row("add", "input=residual", "cancelled 2x5x41");
    case.inputs = vec![case.x.mapv(|v| -v * 0.999)];
    case
}
