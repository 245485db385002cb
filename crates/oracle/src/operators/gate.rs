//! `y[n, c, ..] = x[n, c, ..] * gate[n, c, 1, ..]`, or `gate[n, 1, ..]`: a [product](super::arithmetic) with
//! a broadcast residual, with the same tolerance.

use ndarray::ArrayD;
use op_spec::{ArithmeticOp, GateProblem};

use super::arithmetic::tolerance_of_both;
use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for GateProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        // Extents of 1 are broadcast.
        x * parameters[0]
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        of_both(
            of,
            [&t, &ArrayD::zeros(of.parameters[0].raw_dim())],
            precision,
        )
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// The tolerance for an input with error `t` and a gate with error `u`.
pub(crate) fn of_both(
    of: &Given<'_>,
    [t, u]: [&ArrayD<f64>; 2],
    precision: &Precision,
) -> ArrayD<f64> {
    let repeated = |values: &ArrayD<f64>| {
        let whole = values.broadcast(of.x.raw_dim());
        whole.expect("a value for each channel").to_owned()
    };
    let gate = repeated(of.parameters[0]);
    let whole = Given {
        parameters: &[&gate],
        ..*of
    };
    tolerance_of_both(ArithmeticOp::Mul, &whole, [t, &repeated(u)], precision)
}

pub(super) const CASES: Cases = cases!(
    "gate", "input=gate",
    smoke: "
        plain 2x3x5x7",
    ragged: "
        positions 2x3x5x7 dim=1
        positions_of_volumes 2x8x3x4x5 dim=1
        positions_of_one_channel 2x1x5x7 dim=1
        position 2x8x1x1 dim=1
        vectors_of_positions 3x64x19 dim=1
        no_positions 2x3x0x7 dim=1
        nan_and_infinities_of_positions 2x4x29x31 dim=1 special
        matrix 5x13
        rows 5x13 dim=1
        one_row 1x7 dim=1
        one_of_one 1x1x1 dim=1
        vectors 3x8x5x7
        volumes 2x3x4x5x6
        without_spatial_extents 2x8x1x1
        empty_batch 0x3x5
        one_value 1x1x1x1
        nan_and_infinities 2x4x29x31 special",
    realistic: "
        excited 2x96x14x14"
);
