use ndarray::{ArrayD, ArrayViewD};
use op_spec::{ClampProblem, ClampSpec, SpecError};

/// Values limited to an interval; NaN stays.
///
/// # Errors
/// What [`ClampSpec::problem`] refuses.
pub(crate) fn clamp(x: ArrayViewD<'_, f32>, spec: &ClampSpec) -> Result<ArrayD<f32>, SpecError> {
    let limit = limiter(&spec.problem(x.shape())?);
    let mut y = x.to_owned();
    y.par_mapv_inplace(limit);
    Ok(y)
}

/// The clamp of one value. Comparisons with NaN are false, so a NaN value passes both; a NaN bound
/// replaces every value.
pub(super) fn limiter(problem: &ClampProblem) -> impl Fn(f32) -> f32 + Copy + Send + Sync + use<> {
    let bounds = problem.kernel_bounds();
    let (min, max) = if bounds.min.is_nan() || bounds.max.is_nan() {
        (f32::NAN, f32::NAN)
    } else {
        (bounds.min, bounds.max)
    };
    move |v| {
        let v = if v < min || min.is_nan() { min } else { v };
        if v > max || max.is_nan() { max } else { v }
    }
}
