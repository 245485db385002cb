//! Reductions over axes, sample by sample.

use op_spec::{ReductionOp, ReductionProblem};
use rayon::prelude::*;

use super::moments::sum;
use crate::error::Result;
use crate::host_memory::zeroed;

/// Positions that one task takes through all values.
const TASK_POSITIONS: usize = 1 << 12;

/// Reduces the sample `x` to `y`, group of axes by group of axes.
pub(super) fn reduce_sample(x: &[f32], y: &mut [f32], problem: &ReductionProblem) -> Result<()> {
    let (last, first) = problem.passes().split_last().expect("a pass at least");
    let mut between: Option<Vec<f32>> = None;
    for pass in first {
        let x = between.as_deref().unwrap_or(x);
        let mut y = zeroed(x.len() / pass.reduced)?;
        let operation = problem.operation.partial();
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
        problem.operation,
        [last.reduced, last.inner],
        problem.count,
    );
    Ok(())
}

/// Makes one of `reduced` values, `inner` elements apart from each other. `count` is the divisor of a mean.
fn reduce(
    x: &[f32],
    y: &mut [f32],
    operation: ReductionOp,
    [reduced, inner]: [usize; 2],
    count: usize,
) {
    if inner == 1 {
        let of_row = |row: &[f32]| match operation {
            ReductionOp::Sum | ReductionOp::Mean => sum(row, |v| v) as f32,
            _ => row
                .iter()
                .fold(operation.identity(), |a, &b| operation.combine(a, b)),
        };
        let rows = x.par_chunks_exact(reduced).zip(y);
        rows.for_each(|(row, y)| *y = operation.finish(of_row(row), count));
        return;
    }
    let planes = x
        .par_chunks_exact(reduced * inner)
        .zip(y.par_chunks_mut(inner));
    planes.for_each(|(x, y)| {
        let tasks = y.par_chunks_mut(TASK_POSITIONS).enumerate();
        tasks.for_each(|(task, y)| {
            let part = task * TASK_POSITIONS..task * TASK_POSITIONS + y.len();
            y.fill(operation.identity());
            for values in x.chunks_exact(inner) {
                for (reduced, &v) in y.iter_mut().zip(&values[part.clone()]) {
                    *reduced = operation.combine(*reduced, v);
                }
            }
            for reduced in y {
                *reduced = operation.finish(*reduced, count);
            }
        });
    });
}
