//! Pools over windows of volumes. Images have depth 1.

use op_spec::{PoolProblem, Pooled};

use super::max_keeping_nan;
use super::moments::sum;
use crate::error::Result;
use crate::host_memory::resize;

/// Pools one plane. `tall` is a buffer. NaN in a window gives NaN.
pub(super) fn pool_plane(
    x: &[f32],
    y: &mut [f32],
    problem: &PoolProblem,
    tall: &mut Vec<f32>,
) -> Result<()> {
    match problem.pooled {
        Pooled::Maximum => {
            resize(tall, problem.input[2])?;
            maxima(x, y, problem, tall);
        }
        _ => averages(x, y, problem),
    }
    Ok(())
}

/// Takes the maxima in two passes: first over the rows of a window, for whole rows at once, then along the
/// resulting row of maxima.
fn maxima(x: &[f32], y: &mut [f32], problem: &PoolProblem, tall: &mut [f32]) {
    let [_, p_len, q_len] = problem.output;
    for (row, y) in y.chunks_exact_mut(q_len).enumerate() {
        tall.fill(f32::NEG_INFINITY);
        for x in rows(x, problem, [row / p_len, row % p_len]) {
            for (best, &v) in tall.iter_mut().zip(x) {
                *best = max_keeping_nan(*best, v);
            }
        }
        for (q, best) in y.iter_mut().enumerate() {
            let window = taps(problem, 2, q).map(|column| tall[column]);
            *best = window.fold(f32::NEG_INFINITY, max_keeping_nan);
        }
    }
}

/// Averages each window, with sums in float64.
fn averages(x: &[f32], y: &mut [f32], problem: &PoolProblem) {
    if let Some(divisor) = problem.of_whole_planes() {
        y[0] = (sum(x, |v| v) / divisor) as f32;
        return;
    }
    let [_, p_len, q_len] = problem.output;
    for (index, y) in y.iter_mut().enumerate() {
        let [z, p, q] = [index / q_len / p_len, index / q_len % p_len, index % q_len];
        let (mut sum, mut inside) = (0.0, 0);
        for row in rows(x, problem, [z, p]) {
            for column in taps(problem, 2, q) {
                sum += f64::from(row[column]);
                inside += 1;
            }
        }
        *y = (sum / problem.divisor([z, p, q], inside)) as f32;
    }
}

/// The rows of a plane that the windows of output row `p` in slice `z` cover.
fn rows<'a>(
    x: &'a [f32],
    problem: &PoolProblem,
    [z, p]: [usize; 2],
) -> impl Iterator<Item = &'a [f32]> {
    let [_, h, w] = problem.input;
    taps(problem, 0, z)
        .flat_map(move |depth| taps(problem, 1, p).map(move |row| &x[(depth * h + row) * w..][..w]))
}

/// The input positions that the window of output `output` covers on an axis.
fn taps(problem: &PoolProblem, axis: usize, output: usize) -> impl Iterator<Item = usize> + use<> {
    let (extent, padding) = (problem.input[axis], problem.padding[axis]);
    let (start, dilation) = (output * problem.stride[axis], problem.dilation[axis]);
    // Taps before the input are skipped, those after it end the window.
    let first = padding.saturating_sub(start).div_ceil(dilation);
    (first..problem.kernel_size[axis])
        .map(move |tap| start.saturating_add(tap.saturating_mul(dilation)) - padding)
        .take_while(move |&position| position < extent)
}
