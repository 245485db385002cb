//! `y = x * scale[c]`.
//!
//! *Condition*: `abs(y)`. *Passes on* `t` as `t * abs(scale)`.

use ndarray::{ArrayD, Axis};
use op_spec::ScaleProblem;

use super::operator::{Given, Operator, chained};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for ScaleProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.to_owned();
        for (mut channel, &factor) in y.axis_iter_mut(Axis(1)).zip(parameters[0]) {
            channel *= factor;
        }
        y
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { y, parameters, .. } = of;
        let passed_on = self.reference(&t, &[&parameters[0].mapv(f64::abs)]);
        let magnitudes = y.mapv(f64::abs) + &passed_on;
        magnitudes * (chained(0) * precision.arithmetic) + passed_on
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

pub(super) const CASES: Cases = cases!(
    "scale", "name=scale",
    smoke: "plain 2x3x5x7",
    ragged: "
        empty_batch 0x3x5
        matrix 5x13
        one_value 1x1x1x1
        primes 3x7x11x13x5",
    realistic: "
        layer_scale 2x96x56x56
        layer_scale_of_a_late_block 2x384x14x14"
);
