//! Reductions over axes, sample by sample.

use op_spec::{ReductionOp, ReductionProblem};
use rayon::prelude::*;

use super::max_keeping_nan;
use super::moments::sum;
use crate::error::Result;
use crate::host_memory::zeroed;

/// The number of positions that one task reduces over all values.
const TASK_POSITIONS: usize = 1 << 12;

/// Reduces the sample `x` to `y`, one group of axes at a time.
pub(super) fn reduce_sample(x: &[f32], y: &mut [f32], problem: &ReductionProblem) -> Result<()> {
    let (last, first) = problem.passes().split_last().expect("a pass at least");
    let steps = first.len() + 1;
    let mut between: Option<Vec<f32>> = None;
    for (step, pass) in first.iter().enumerate() {
        let x = between.as_deref().unwrap_or(x);
        let mut y = zeroed(x.len() / pass.reduced)?;
        let operation = problem.operation.of_step(step, steps);
        reduce(
            x,
            &mut y,
            operation,
            [pass.reduced, pass.inner],
            pass.reduced,
        );
        between = Some(y);
    }
    let x = between.as_deref().unwrap_or(x);
    reduce(
        x,
        y,
        problem.operation.of_step(steps - 1, steps),
        [last.reduced, last.inner],
        problem.count,
    );
    Ok(())
}

/// Reduces `reduced` values, which are `inner` elements apart, to one. `count` is the divisor of a mean. Sums
/// are float64.
fn reduce(
    x: &[f32],
    y: &mut [f32],
    operation: ReductionOp,
    [reduced, inner]: [usize; 2],
    count: usize,
) {
    if inner == 1 {
        let rows = x.par_chunks_exact(reduced).zip(y);
        rows.for_each(|(row, y)| *y = of_row(row, operation, count));
        return;
    }
    let planes = x
        .par_chunks_exact(reduced * inner)
        .zip(y.par_chunks_mut(inner));
    planes.for_each(|(x, y)| {
        let tasks = y.par_chunks_mut(TASK_POSITIONS).enumerate();
        tasks.for_each(|(task, y)| {
            let part = task * TASK_POSITIONS..task * TASK_POSITIONS + y.len();
            let values = x.chunks_exact(inner).map(|values| &values[part.clone()]);
            of_positions(values, y, operation, count);
        });
    });
}

/// Reduces neighbouring values.
fn of_row(row: &[f32], operation: ReductionOp, count: usize) -> f32 {
    let largest = || row.iter().copied().fold(f32::NEG_INFINITY, max_keeping_nan);
    match operation {
        ReductionOp::Max => largest(),
        ReductionOp::Min => -row
            .iter()
            .map(|&v| -v)
            .fold(f32::NEG_INFINITY, max_keeping_nan),
        ReductionOp::Sum => sum(row, |v| v) as f32,
        ReductionOp::Mean => (sum(row, |v| v) / count as f64) as f32,
        ReductionOp::LogSumExp => {
            let pivot = pivot(largest());
            (sum(row, |v| (v - pivot).exp()).ln() + pivot) as f32
        }
        _ => unreachable!("every operation has an arm"),
    }
}

/// Reduces at each position of `y` the values at that position of each of `values`.
fn of_positions<'a>(
    values: impl Iterator<Item = &'a [f32]> + Clone,
    y: &mut [f32],
    operation: ReductionOp,
    count: usize,
) {
    let selected = |y: &mut [f32], sign: f32| {
        y.fill(f32::NEG_INFINITY);
        for values in values.clone() {
            let pairs = y.iter_mut().zip(values);
            pairs.for_each(|(y, &v)| *y = max_keeping_nan(*y, sign * v));
        }
        y.iter_mut().for_each(|y| *y *= sign);
    };
    match operation {
        ReductionOp::Max => selected(y, 1.0),
        ReductionOp::Min => selected(y, -1.0),
        ReductionOp::Sum | ReductionOp::Mean => {
            let divisor = if operation == ReductionOp::Mean {
                count as f64
            } else {
                1.0
            };
            let sums = summed(values, y.len(), |_, v| v);
            y.iter_mut()
                .zip(sums)
                .for_each(|(y, sum)| *y = (sum / divisor) as f32);
        }
        ReductionOp::LogSumExp => {
            selected(y, 1.0);
            let pivots: Vec<f64> = y.iter().map(|&largest| pivot(largest)).collect();
            let sums = summed(values, y.len(), |at, v| (v - pivots[at]).exp());
            let results = y.iter_mut().zip(sums.iter().zip(&pivots));
            results.for_each(|(y, (sum, pivot))| *y = (sum.ln() + pivot) as f32);
        }
        _ => unreachable!("every operation has an arm"),
    }
}

/// Sums at each of `len` positions the results of `of` for the position and each value.
fn summed<'a>(
    values: impl Iterator<Item = &'a [f32]>,
    len: usize,
    of: impl Fn(usize, f64) -> f64,
) -> Vec<f64> {
    let mut sums = vec![0.0; len];
    for values in values {
        for (at, (sum, &v)) in sums.iter_mut().zip(values).enumerate() {
            *sum += of(at, f64::from(v));
        }
    }
    sums
}

/// The number that is subtracted before exponentials are taken: the largest value, or 0 if it is infinite.
fn pivot(largest: f32) -> f64 {
    match largest.is_infinite() {
        true => 0.0,
        false => f64::from(largest),
    }
}
