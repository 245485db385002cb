//! `y[n, ((c * h) + i) * w + j] = x[n, c, i, j]`, and likewise with other axes: the same values in the same
//! order. *Passes on* `t` as it is.

use ndarray::{ArrayD, IxDyn};
use op_spec::FlattenProblem;

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for FlattenProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let values = x.iter().copied().collect();
        let shape = [x.shape()[0], self.features];
        ArrayD::from_shape_vec(IxDyn(&shape), values).expect("as many elements")
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
        let values = t.iter().copied().collect();
        ArrayD::from_shape_vec(of.y.raw_dim(), values).expect("as many elements")
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        (self.n as u64).saturating_mul(self.features as u64)
    }
}

pub(super) const CASES: Cases = cases!(
    "flatten", "",
    smoke: "
        plain 2x3x5x7",
    ragged: "
        matrix 5x13
        sequences 3x2x9
        volumes 2x3x4x5x6
        empty_batch 0x3x5
        one_value 1x1x1x1
        nan_and_infinities 2x7x29x31 special",
    realistic: "
        vgg_head 2x512x7x7"
);
