//! `y[.., i, ..] = x[.., start + i, ..]` along the axis `dim`. *Passes on* `t` unchanged.

use ndarray::{ArrayD, Axis, Slice};
use op_spec::NarrowProblem;

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for NarrowProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        part(self, x)
    }

    fn tolerance(&self, _: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
        part(self, &t)
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        let spec = &self.spec;
        (self.shape.n * self.shape.outer * spec.length * self.shape.inner) as u64
    }
}

fn part(problem: &NarrowProblem, x: &ArrayD<f64>) -> ArrayD<f64> {
    let spec = &problem.spec;
    let range = Slice::from(spec.start..spec.start + spec.length);
    x.slice_axis(Axis(spec.dim), range).to_owned()
}

pub(super) const CASES: Cases = cases!(
    "narrow", "dim=1 start=1 length=2",
    smoke: "
        plain 2x3x5x7",
    ragged: "
        matrix 5x13 start=4 length=9
        columns 3x2x9 dim=2 start=0 length=1
        volumes 2x3x4x5x6 dim=2
        vectors 2x16x4x4 start=4 length=8
        whole 2x3x5 start=0 length=3
        empty_batch 0x3x5
        one_value 1x1x1x1 start=0 length=1
        nan_and_infinities 2x7x29x31 length=5 special",
    realistic: "
        half 2x128x28x28 start=64 length=64"
);
