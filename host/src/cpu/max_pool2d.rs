use op_spec::MaxPool2dProblem;

use super::max_keeping_nan;
use super::pool::taps;

/// Pools one plane in two passes: first over the rows of a window, for whole rows at once, then along the
/// resulting row of maxima. `tall` is the buffer for that row. NaN in a window gives NaN.
pub(super) fn pool_plane(x: &[f32], y: &mut [f32], problem: &MaxPool2dProblem, tall: &mut [f32]) {
    let w = problem.input[1];
    let taps = |axis: usize, output| {
        let of = [
            problem.kernel_size,
            problem.stride,
            problem.padding,
            problem.dilation,
        ];
        taps(problem.input[axis], of.map(|each| each[axis]), output)
    };
    for (p, y) in y.chunks_exact_mut(problem.output[1]).enumerate() {
        tall.fill(f32::NEG_INFINITY);
        for row in taps(0, p) {
            for (best, &v) in tall.iter_mut().zip(&x[row * w..][..w]) {
                *best = max_keeping_nan(*best, v);
            }
        }
        for (q, best) in y.iter_mut().enumerate() {
            let window = taps(1, q).map(|column| tall[column]);
            *best = window.fold(f32::NEG_INFINITY, max_keeping_nan);
        }
    }
}
