//! `y` is the result of the operation on `x` over the axes. NaN in any value gives NaN.
//!
//! *Condition*: 0 for an operation that selects one of the values; 1 and its magnitude for a logarithm of
//! exponentials; for any other, the result on the magnitudes. *Passes on* the largest `t` of the values, or
//! the sum or mean of `t`. The longest chain of additions has as many elements as there are values.

use ndarray::{ArrayD, ArrayView1, Axis, Zip};
use op_spec::{ReductionOp, ReductionProblem};

use super::operator::{Given, Operator, chained};
use crate::cases::cases;
use crate::{Cases, Precision};

/// Applies the operation to these values.
fn reduced(operation: ReductionOp, values: ArrayView1<'_, f64>) -> f64 {
    match operation {
        ReductionOp::Max => values.fold(f64::NEG_INFINITY, |largest, &v| {
            if v > largest || v.is_nan() {
                v
            } else {
                largest
            }
        }),
        ReductionOp::Min => values.fold(f64::INFINITY, |smallest, &v| {
            if v < smallest || v.is_nan() {
                v
            } else {
                smallest
            }
        }),
        ReductionOp::Sum => values.sum(),
        ReductionOp::Mean => values.sum() / values.len() as f64,
        ReductionOp::LogSumExp => {
            let largest = reduced(ReductionOp::Max, values);
            let pivot = if largest.is_infinite() { 0.0 } else { largest };
            values.mapv(|v| (v - pivot).exp()).sum().ln() + pivot
        }
        _ => unreachable!("every operation has an arm"),
    }
}

/// Applies the operation to `x`, axis by axis. The axes behind the first one combine its results.
fn of_axes(problem: &ReductionProblem, operation: ReductionOp, x: &ArrayD<f64>) -> ArrayD<f64> {
    let (mut y, mut operation) = (x.clone(), operation);
    for axis in problem.axes().rev() {
        y = y.map_axis(Axis(axis), |values| reduced(operation, values));
        if problem.keepdim {
            y = y.insert_axis(Axis(axis));
        }
        operation = operation.combination();
    }
    y
}

impl Operator for ReductionProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        of_axes(self, self.operation, x)
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        if self.selects() {
            return of_axes(self, ReductionOp::Max, &t);
        }
        if self.operation == ReductionOp::LogSumExp {
            // The error of a sum of exponentials consists of the rounding of its terms, of the sum, and of
            // the distances from the largest value, whose weighted mean is at most `ln(count)`. The result
            // is rounded relative to its own magnitude. Partial results are rounded, too, and are smaller by
            // at most `ln(count)`.
            let (most, ln) = (
                of_axes(self, ReductionOp::Max, &t),
                (self.count as f64).ln(),
            );
            let own = of.y.mapv(|y| match y.is_finite() {
                true => (2.0 * chained(self.count) + 6.0 * (y.abs() + ln)) * precision.arithmetic,
                false => 0.0,
            });
            return own + most;
        }
        let passed_on = self.reference(&t, &[]);
        let magnitudes = self.reference(&of.x.mapv(f64::abs), &[]) + &passed_on;
        let mut own = magnitudes.mapv(|v| chained(self.count) * precision.arithmetic * v);
        // Infinite and NaN outputs have a tolerance of 0.
        Zip::from(&mut own).and(of.y).for_each(|own, y| {
            if !y.is_finite() {
                *own = 0.0;
            }
        });
        own + passed_on
    }

    fn selects(&self) -> bool {
        self.operation.selects()
    }

    fn cost(&self) -> u64 {
        self.elements as u64
    }
}

/// Defines the cases of an operation.
macro_rules! cases_of {
    ($operation:literal) => {
        cases!(
            $operation, "dim=1",
            smoke: "plain 2x7x5x6",
            ragged: "
                empty_batch 0x3x5
                empty_image 2x3x0
                one_channel 2x1x7x5
                matrix 5x67
                more_than_a_warp 3x33x5x7
                many_channels 1x521x3x7
                kept_dimension 2x5x3x4 keepdim=true
                counted_from_the_end 2x6x3x5 dim=[-3]
                nan_and_infinities 2x11x7x13 special
                images 3x5x7x9 dim=[2,3]
                kept_images 2x3x8x12 dim=[-1,-2] keepdim=true
                samples 3x4x5x6 dim=[1,2,3]
                rows 2x3x5x37 dim=-1 special
                columns 2x3x6x9 dim=2
                depth 2x3x4x5x6 dim=[2] keepdim=true
                one_row 2x3x1x1x70 dim=[2,4]
                apart 2x3x4x5x6 dim=[1,3]
                apart_and_kept 2x5x3x7 dim=[3,1] keepdim=true special
                three_groups 1x3x2x4x2x5x2 dim=[1,3,5]
                nothing_left 2x1x1 dim=[1,2]
                several_parts 1x2x91x93 dim=[2,3]
                several_parts_of_vectors 2x1x3x4096 dim=[2,3] special",
            realistic: "maxout 2x16x14x30x30
                pooled 2x64x56x56 dim=[2,3]
                reduced_depth 2x24x22x30x30 dim=2"
        )
    };
}

pub(super) const CASES: &[Cases] = &[
    cases_of!("max"),
    cases_of!("min"),
    cases_of!("sum"),
    cases_of!("mean"),
    cases_of!("logsumexp"),
];

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::ReductionSpec;

    use super::*;

    #[test]
    fn every_operation_has_cases() {
        let names = ReductionOp::ALL.iter().map(|operation| operation.name());
        assert!(names.eq(CASES.iter().map(|cases| cases.kind)));
    }

    #[test]
    fn nan_wins() {
        let (nan, minus) = (f64::NAN, f64::NEG_INFINITY);
        let x = array![[[1.0, nan, minus], [2.0, 7.0, minus]]].into_dyn();
        let largest = ReductionSpec::new(ReductionOp::Max, &[1]);
        let y = largest.problem(x.shape()).unwrap().reference(&x, &[]);
        assert!(y[[0, 0]] == 2.0 && y[[0, 1]].is_nan() && y[[0, 2]] == minus);
        for &operation in ReductionOp::ALL {
            let spec = ReductionSpec::new(operation, &[1]);
            let y = spec.problem(x.shape()).unwrap().reference(&x, &[]);
            assert!(y[[0, 1]].is_nan(), "{}", operation.name());
        }
    }
}
