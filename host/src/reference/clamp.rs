use ndarray::{ArrayD, ArrayViewD};
use op_spec::{ClampSpec, SpecError};

/// `y = min(max(x, lower), upper)`; NaN stays, and where the bounds cross the upper one wins.
///
/// # Errors
/// What [`ClampSpec::problem`] refuses.
pub fn clamp(x: ArrayViewD<'_, f64>, spec: &ClampSpec) -> Result<ArrayD<f64>, SpecError> {
    let problem = spec.problem(x.shape())?;
    let bound_is_nan = problem.min.is_nan() || problem.max.is_nan();
    Ok(x.mapv(|v| {
        if v.is_nan() || bound_is_nan {
            f64::NAN
        } else {
            v.max(problem.min).min(problem.max)
        }
    }))
}
