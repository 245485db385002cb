use ndarray::{ArrayD, ArrayView1, ArrayViewD, Axis};
use op_spec::{ScaleSpec, SpecError};

/// `y = x * scale[c]`.
///
/// # Errors
/// What [`ScaleSpec::problem`] refuses.
pub fn scale(x: ArrayViewD<'_, f64>, scale: ArrayView1<'_, f64>) -> Result<ArrayD<f64>, SpecError> {
    ScaleSpec.problem(x.shape(), scale.shape())?;
    let mut y = x.to_owned();
    for (mut channel, &factor) in y.axis_iter_mut(Axis(1)).zip(scale) {
        channel *= factor;
    }
    Ok(y)
}
