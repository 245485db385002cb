//! `y[n, ((c * h) + i) * w + j] = x[n, c, i, j]`, and likewise for other axes of input and output: the same
//! values in the same order. *Passes on* `t` unchanged.

use ndarray::{ArrayD, IxDyn};
use op_spec::{FlattenProblem, ReshapeProblem};

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

macro_rules! reshape {
    ($Problem:ident: |$problem:ident| $output:expr) => {
        impl Operator for $Problem {
            fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
                let ($problem, values) = (self, x.iter().copied().collect());
                // The input may contain only some of the samples.
                let mut shape = $output.to_vec();
                shape[0] = x.shape()[0];
                ArrayD::from_shape_vec(IxDyn(&shape), values).expect("as many elements")
            }

            fn tolerance(&self, _: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
                self.reference(&t, &[])
            }

            fn selects(&self) -> bool {
                true
            }

            fn cost(&self) -> u64 {
                let $problem = self;
                let multiply =
                    |product: u64, &extent: &usize| product.saturating_mul(extent as u64);
                $output.iter().fold(1, multiply)
            }
        }
    };
}

reshape!(FlattenProblem: |problem| problem.output_shape());
reshape!(ReshapeProblem: |problem| problem.output);

pub(super) const RESHAPE: Cases = cases!(
    "reshape", "shape=[5,-1,3]",
    smoke: "
        plain 2x3x5x7",
    ragged: "
        matrix 5x12 shape=[2,3,2]
        volumes 2x3x4x5x6 shape=[4,3,5,6]
        all 2x3x4x5x6 shape=[-1]
        channels 2x3x4 shape=[-1,2]
        empty_batch 0x3x5
        one_value 1x1x1x1 shape=[1,1]
        nan_and_infinities 2x6x29x31 shape=[29,6,31] special",
    realistic: "
        decoder 2x8192 shape=[512,4,4]"
);

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
