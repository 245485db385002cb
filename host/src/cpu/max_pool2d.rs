use op_spec::MaxPool2dProblem;

use super::max_keeping_nan;

/// Pools one plane: first down the rows of a window, over whole rows at once, then along the row
/// of maxima, for which `tall`, as long as one, is the buffer. NaN in a window gives NaN.
pub(super) fn pool_plane(x: &[f32], y: &mut [f32], problem: &MaxPool2dProblem, tall: &mut [f32]) {
    let w = problem.input[1];
    for (p, y) in y.chunks_exact_mut(problem.output[1]).enumerate() {
        tall.fill(f32::NEG_INFINITY);
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
