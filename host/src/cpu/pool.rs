//! Pools over windows of volumes. Images have depth 1.

use op_spec::{PoolProblem, Pooled};
use rayon::prelude::*;

use super::max_keeping_nan;
use super::moments::sum;

/// Pools a sample, plane by plane. Sums are float64.
pub(super) fn pool_sample(x: &[f32], y: &mut [f32], problem: &PoolProblem) {
    let of_plane = |extents: [usize; 3]| extents.iter().product::<usize>();
    let planes = y.par_chunks_mut(of_plane(problem.output));
    planes
        .zip(x.par_chunks(of_plane(problem.input)))
        .for_each(|(y, x)| pool_plane(x, y, problem));
}

fn pool_plane(x: &[f32], y: &mut [f32], problem: &PoolProblem) {
    if let Some(divisor) = problem.of_whole_planes() {
        y[0] = (sum(x, |v| v) / divisor) as f32;
        return;
    }
    let [_, h, w] = problem.input;
    let [_, p_len, q_len] = problem.output;
    for (index, y) in y.iter_mut().enumerate() {
        let output = [index / q_len / p_len, index / q_len % p_len, index % q_len];
        let taps = |axis: usize| {
            let of = [
                problem.kernel_size,
                problem.stride,
                problem.padding,
                problem.dilation,
            ];
            taps(problem.input[axis], of.map(|each| each[axis]), output[axis])
        };
        let (mut largest, mut sum, mut inside) = (f32::NEG_INFINITY, 0.0, 0);
        for depth in taps(0) {
            for row in taps(1) {
                let row = &x[(depth * h + row) * w..][..w];
                for column in taps(2) {
                    largest = max_keeping_nan(largest, row[column]);
                    sum += f64::from(row[column]);
                    inside += 1;
                }
            }
        }
        *y = match problem.pooled {
            Pooled::Maximum => largest,
            _ => (sum / problem.divisor(output, inside)) as f32,
        };
    }
}

/// Input positions that the window of output `output` covers on an axis of `extent` positions.
pub(super) fn taps(
    extent: usize,
    [kernel_size, stride, padding, dilation]: [usize; 4],
    output: usize,
) -> impl Iterator<Item = usize> {
    let start = output * stride;
    // Taps before the input are skipped, those after it end the window.
    let first = padding.saturating_sub(start).div_ceil(dilation);
    (first..kernel_size)
        .map(move |tap| start.saturating_add(tap.saturating_mul(dilation)) - padding)
        .take_while(move |&position| position < extent)
}
