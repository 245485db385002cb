//! `y[n, c, i, ..] = x[n, c, i - before, ..]`, with the values of the padding mode beyond the input's edges.
//! *Passes on* `t` unchanged; zeros are exact.

use ndarray::{ArrayD, Axis};
use op_spec::PadProblem;

use super::conv::{as_volumes, within};
use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for PadProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let y = within(&as_volumes(x), &self.pad).into_dyn();
        (self.dimensions..3).fold(y, |y, _| y.remove_axis(Axis(2)))
    }

    fn tolerance(&self, _: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
        self.reference(&t, &[])
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        self.output_shape().elements() as u64
    }
}

pub(super) const CASES: Cases = cases!(
    "pad", "padding=[1,2,3,4]",
    smoke: "
        plain 2x3x5x7",
    ragged: "
        sequences 3x5x19 padding=[4,0]
        volumes 2x3x4x5x6 padding=[0,1,2,3,1,0]
        reflect 2x3x5x7 padding=[6,1,0,4] padding_mode=reflect
        reflect_volumes 2x3x4x5x6 padding=[0,5,4,3,1,3] padding_mode=reflect
        replicate 2x3x5x7 padding=[9,1,0,7] padding_mode=replicate
        circular 2x3x5x7 padding=[7,1,0,5] padding_mode=circular
        circular_sequences 3x5x19 padding=[0,19] padding_mode=circular
        none 2x3x5x7 padding=[0,0,0,0]
        vectors 2x16x8x8 padding=[0,8,0,0]
        no_pixels 2x3x0x4
        empty_batch 0x3x5x7
        one_value 1x1x1x1
        nan_and_infinities 2x7x29x31 padding_mode=replicate special",
    realistic: "
        efficient_net 1x24x56x56 padding=[0,1,0,1]"
);
