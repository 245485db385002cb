//! `y = e^x / sum(e^x)` over the axes, or its logarithm. NaN or infinity in any value gives NaN for all
//! values of the same sum, as does minus infinity in all of them.
//!
//! *Condition*: for a softmax, 1 plus the distance of `x` from the largest value, times `y`; for its
//! logarithm, that distance and `y`. *Passes on* twice the largest `t` of the values of a sum: for the value
//! itself and for the sum. The longest chain of additions has as many elements as there are values.

use ndarray::{ArrayD, Zip};
use op_spec::SoftmaxProblem;

use super::operator::{Given, Operator, chained};
use crate::cases::cases;
use crate::{Cases, Precision};

/// Applies `of` to the values of each sum, and assigns the result to each of them.
fn spread(problem: &SoftmaxProblem, x: &ArrayD<f64>, of: impl Fn(&[f64]) -> f64) -> ArrayD<f64> {
    let (reduced, inner) = (problem.pass.reduced, problem.pass.inner);
    let mut y = x.as_standard_layout().into_owned();
    let values = y.as_slice_mut().expect("standard layout");
    // An empty tensor has no values.
    for block in values.chunks_exact_mut((reduced * inner).max(1)) {
        for position in 0..inner {
            let series = block[position..].iter().copied().step_by(inner);
            let result = of(&series.collect::<Vec<_>>());
            let places = block[position..].iter_mut().step_by(inner);
            places.for_each(|place| *place = result);
        }
    }
    y
}

/// The largest value, or NaN.
fn largest(values: &[f64]) -> f64 {
    let larger = |a: f64, &b: &f64| if b > a || b.is_nan() { b } else { a };
    values.iter().fold(f64::NEG_INFINITY, larger)
}

impl Operator for SoftmaxProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let most = spread(self, x, largest);
        let sums = spread(self, x, |values| {
            let most = largest(values);
            values.iter().map(|v| (v - most).exp()).sum()
        });
        let mut y = x - most;
        Zip::from(&mut y).and(&sums).for_each(|y, sum| {
            *y = match self.is_log {
                true => *y - sum.ln(),
                false => y.exp() / sum,
            }
        });
        y
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let distances = of.x - spread(self, of.x, largest);
        let mut t = spread(self, &t, largest);
        let count = self.pass.reduced;
        // The distances from the largest value are rounded. Their weighted mean in the sum is at most
        // `ln(count)`.
        let of_sum = 2.0 * chained(count) + (count as f64).ln();
        Zip::from(&mut t)
            .and(of.y)
            .and(&distances)
            .for_each(|t, &y, &distance| {
                let distance = distance.abs();
                // Infinite and NaN outputs have a tolerance of 0, and outputs of 0 are exact.
                *t = if !y.is_finite() || !distance.is_finite() {
                    0.0
                } else if self.is_log {
                    2.0 * *t + (of_sum + 2.0 * distance + 2.0 * y.abs()) * precision.arithmetic
                } else {
                    let unit = (of_sum + chained(16) + distance) * precision.arithmetic;
                    y * ((2.0 * *t).exp_m1() + unit * (2.0 * *t).exp())
                };
            });
        t
    }

    fn cost(&self) -> u64 {
        self.elements as u64
    }
}

/// Defines the cases of an operator.
macro_rules! cases_of {
    ($operator:literal) => {
        cases!(
            $operator, "dim=1",
            smoke: "plain 2x7x5x6",
            ragged: "
                empty_batch 0x3x5
                empty_image 2x3x0
                nothing_to_share 2x0x3
                one_channel 2x1x7x5
                matrix 5x67
                more_than_a_warp 3x33x5x7
                many_channels 1x521x3x7
                counted_from_the_end 2x6x3x5 dim=[-3]
                nan_and_infinities 2x11x7x13 special
                large 2x31x3x5 scaled=100
                images 3x5x7x9 dim=[2,3]
                samples 3x4x5x6 dim=[1,2,3]
                rows 2x3x5x37 dim=-1 special
                vectors 2x3x5x64 dim=-1
                columns 2x3x6x9 dim=2
                depth 2x3x4x5x6 dim=[2]
                rows_of_a_block 2x1x3x1100 dim=3
                several_batches 1x2x91x93 dim=[2,3]
                several_batches_of_vectors 2x1x3x4096 dim=[2,3] special",
            realistic: "segmentation 2x21x65x65
                attention 2x8x49x49 dim=-1
                large_sum 1x1000x14x14"
        )
    };
}

pub(super) const CASES: &[Cases] = &[cases_of!("softmax"), cases_of!("log_softmax")];
