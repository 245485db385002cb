use ndarray::{ArrayD, ArrayViewD, Axis, Zip};
use op_spec::{ChannelMaxSpec, SpecError};

/// `y[n, ..] = max over c of x[n, c, ..]`; NaN in any channel gives NaN.
///
/// # Errors
/// What [`ChannelMaxSpec::problem`] refuses.
pub fn channel_max(x: ArrayViewD<'_, f64>) -> Result<ArrayD<f64>, SpecError> {
    ChannelMaxSpec.problem(x.shape())?;
    let mut y = x.index_axis(Axis(1), 0).to_owned();
    for channel in x.axis_iter(Axis(1)).skip(1) {
        Zip::from(&mut y).and(&channel).for_each(|best, &v| {
            if v > *best || v.is_nan() {
                *best = v;
            }
        });
    }
    Ok(y)
}
