//! Softmax over axes, sample by sample.

use op_spec::SoftmaxProblem;
use rayon::prelude::*;

/// Writes the softmax or log softmax of the sample `x` to `y`. Sums are float64.
pub(super) fn softmax_sample(x: &[f32], y: &mut [f32], problem: &SoftmaxProblem) {
    let (reduced, inner) = (problem.pass.reduced, problem.pass.inner);
    let blocks = x.par_chunks_exact(reduced * inner);
    let blocks = blocks.zip(y.par_chunks_exact_mut(reduced * inner));
    blocks.for_each(|(x, y)| {
        let rows = || x.chunks_exact(inner);
        // A maximum that drops NaN suffices, since NaN makes the sum NaN.
        let mut largest = vec![f32::NEG_INFINITY; inner];
        for row in rows() {
            let pairs = largest.iter_mut().zip(row);
            pairs.for_each(|(largest, &v)| *largest = largest.max(v));
        }
        let distance = |v: f32, largest: f32| f64::from(v) - f64::from(largest);
        let mut sums = vec![0.0; inner];
        for row in rows() {
            let pairs = sums.iter_mut().zip(row.iter().zip(&largest));
            pairs.for_each(|(sum, (&v, &largest))| *sum += distance(v, largest).exp());
        }
        for (row, y) in rows().zip(y.chunks_exact_mut(inner)) {
            let values = row.iter().zip(largest.iter().zip(&sums));
            y.iter_mut()
                .zip(values)
                .for_each(|(y, (&v, (&largest, sum)))| {
                    *y = match problem.is_log {
                        true => (distance(v, largest) - sum.ln()) as f32,
                        false => (distance(v, largest).exp() / sum) as f32,
                    }
                });
        }
    });
}
