//! `y[n, ..] = max over c of x[n, c, ..]`; NaN in any channel gives NaN.
//!
//! *Condition*: 0. *Passes on* the largest `t` of the channels.

use ndarray::{ArrayD, Axis, Zip};
use op_spec::ChannelMaxProblem;
use op_spec::graph::Layer;

use super::operator::Operator;
use crate::{Case, Cases, Precision};

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

    fn tolerance(
        &self,
        _: &ArrayD<f64>,
        t: ArrayD<f64>,
        _: &ArrayD<f64>,
        _: &[&ArrayD<f64>],
        _: &Precision,
    ) -> ArrayD<f64> {
        self.reference(&t, &[])
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

pub(super) const CASES: Cases = Cases {
    kind: "channel_max",
    smoke: || vec![case("plain", &[2, 7, 5, 6])],
    ragged: || {
        vec![
            case("empty_batch", &[0, 3, 5]),
            case("empty_image", &[2, 3, 0]),
            case("one_channel", &[2, 1, 7, 5]),
            case("matrix", &[5, 67]),
            case("many_channels", &[1, 521, 3, 7]),
            case("nan_and_infinities", &[2, 11, 7, 13]).special(),
        ]
    },
    realistic: || vec![case("maxout", &[2, 16, 14, 30, 30])],
    golden: "channel_max",
    read: |file| file.case("channel_max", [Layer::channel_max()], &[]),
};

fn case(name: &str, x: &[usize]) -> Case {
    Case::of_layer(&format!("channel_max/{name}"), Layer::channel_max(), x).expect("a chain")
}

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
