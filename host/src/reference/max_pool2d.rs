use ndarray::{Array4, ArrayView2, ArrayView4, Axis, Zip};
use op_spec::{MaxPool2dProblem, MaxPool2dSpec, SpecError};

/// `y[n, c, p, q] = max over r, s of x[n, c, p', q']` with
/// `p' = p * stride - padding + r * dilation` and `q'` likewise, positions outside the image left
/// out. NaN in a window gives NaN; a window with no position inside (possible only with dilation)
/// gives minus infinity.
///
/// # Errors
/// What [`MaxPool2dSpec::problem`] refuses.
pub fn max_pool2d(x: ArrayView4<'_, f64>, spec: &MaxPool2dSpec) -> Result<Array4<f64>, SpecError> {
    let problem = spec.problem(x.shape())?;
    let [p, q] = problem.output;
    let mut y = Array4::zeros((problem.n, problem.c, p, q));
    for (mut sample, image) in y.axis_iter_mut(Axis(0)).zip(x.axis_iter(Axis(0))) {
        Zip::from(sample.axis_iter_mut(Axis(0)))
            .and(image.axis_iter(Axis(0)))
            .par_for_each(|mut y, x| {
                for ((p, q), best) in y.indexed_iter_mut() {
                    *best = window_max(&x, &problem, p, q);
                }
            });
    }
    Ok(y)
}

fn window_max(x: &ArrayView2<'_, f64>, problem: &MaxPool2dProblem, p: usize, q: usize) -> f64 {
    let position = |axis: usize, output: usize, tap: usize| {
        let padded = output * problem.stride[axis] + tap * problem.dilation[axis];
        padded.checked_sub(problem.padding[axis])
    };
    let [r_len, s_len] = problem.kernel_size;
    let mut best = f64::NEG_INFINITY;
    for r in 0..r_len {
        for s in 0..s_len {
            let (Some(row), Some(column)) = (position(0, p, r), position(1, q, s)) else {
                continue;
            };
            let Some(&v) = x.get([row, column]) else {
                continue;
            };
            if v > best || v.is_nan() {
                best = v;
            }
        }
    }
    best
}
