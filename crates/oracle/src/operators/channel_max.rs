//! `y[n, ..] = max over c of x[n, c, ..]`; NaN in any channel gives NaN.
//!
//! *Condition*: 0. *Passes on* the largest `t` of the channels.

use ndarray::{ArrayD, Axis, Zip};
use op_spec::ChannelMaxProblem;

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for ChannelMaxProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut y = x.index_axis(Axis(1), 0).to_owned();
        for channel in x.axis_iter(Axis(1)).skip(1) {
            Zip::from(&mut y).and(&channel).for_each(|best, &v| {
                if v > *best || v.is_nan() {
                    *best = v;
                }
            });
        }
        y
    }

    fn tolerance(&self, _: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
        self.reference(&t, &[])
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

pub(super) const CASES: Cases = cases!(
    "channel_max", "",
    smoke: "plain 2x7x5x6",
    ragged: "
        empty_batch 0x3x5
        empty_image 2x3x0
        one_channel 2x1x7x5
        matrix 5x67
        many_channels 1x521x3x7
        nan_and_infinities 2x11x7x13 special",
    realistic: "maxout 2x16x14x30x30"
);

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::ChannelMaxSpec;

    use super::*;

    #[test]
    fn nan_wins() {
        let (nan, minus) = (f64::NAN, f64::NEG_INFINITY);
        let x = array![[[1.0, nan, minus], [2.0, 7.0, minus]]].into_dyn();
        let y = ChannelMaxSpec
            .problem(x.shape())
            .unwrap()
            .reference(&x, &[]);
        assert!(y[[0, 0]] == 2.0 && y[[0, 1]].is_nan() && y[[0, 2]] == minus);
    }
}
