use ndarray::{Array4, ArrayView4};
use op_spec::{MaxPool2dProblem, MaxPool2dSpec, SpecError};
use rayon::prelude::*;

use super::max_keeping_nan;

/// The maximum of windows; NaN in one gives NaN.
///
/// # Errors
/// What [`MaxPool2dSpec::problem`] refuses.
pub(crate) fn max_pool2d(
    x: ArrayView4<'_, f32>,
    spec: &MaxPool2dSpec,
) -> Result<Array4<f32>, SpecError> {
    let problem = spec.problem(x.shape())?;
    let ([h, w], [p, q]) = (problem.input, problem.output);
    let mut y = Array4::zeros((problem.n, problem.c, p, q));
    let x = x.as_standard_layout();
    y.as_slice_mut()
        .expect("a new array is contiguous")
        .par_chunks_mut(p * q)
        .zip(
            x.as_slice()
                .expect("standard layout is contiguous")
                .par_chunks(h * w),
        )
        .for_each_init(Vec::new, |tall, (y, x)| pool_plane(x, y, &problem, tall));
    Ok(y)
}

/// Pools one plane: first down the rows of a window, over whole rows at once, then along the row
/// of maxima, for which `tall` is the buffer.
pub(super) fn pool_plane(
    x: &[f32],
    y: &mut [f32],
    problem: &MaxPool2dProblem,
    tall: &mut Vec<f32>,
) {
    let w = problem.input[1];
    for (p, y) in y.chunks_exact_mut(problem.output[1]).enumerate() {
        tall.clear();
        tall.resize(w, f32::NEG_INFINITY);
        for row in taps(problem, 0, p) {
            for (best, &v) in tall.iter_mut().zip(&x[row * w..][..w]) {
                *best = max_keeping_nan(*best, v);
            }
        }
        for (q, best) in y.iter_mut().enumerate() {
            let window = taps(problem, 1, q).map(|column| tall[column]);
            *best = window.fold(f32::NEG_INFINITY, max_keeping_nan);
        }
    }
}

/// Input positions inside the plane that the window of output `output` covers on `axis`.
fn taps(
    problem: &MaxPool2dProblem,
    axis: usize,
    output: usize,
) -> impl Iterator<Item = usize> + use<> {
    let (dilation, padding) = (problem.dilation[axis], problem.padding[axis]);
    let start = output * problem.stride[axis];
    // Taps before the plane are skipped, those behind it end the window.
    let first = padding.saturating_sub(start).div_ceil(dilation);
    let extent = problem.input[axis];
    (first..problem.kernel_size[axis])
        .map(move |tap| start + tap * dilation - padding)
        .take_while(move |&position| position < extent)
}
