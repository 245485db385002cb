use ndarray::{ArrayD, ArrayView1, ArrayViewD};
use op_spec::{ScaleSpec, SpecError};
use rayon::prelude::*;

/// A product with one factor for each channel.
///
/// # Errors
/// What [`ScaleSpec::problem`] refuses.
pub(crate) fn scale(
    x: ArrayViewD<'_, f32>,
    scale: ArrayView1<'_, f32>,
) -> Result<ArrayD<f32>, SpecError> {
    let problem = ScaleSpec.problem(x.shape(), scale.shape())?;
    let mut y = x.as_standard_layout().into_owned();
    if y.is_empty() {
        return Ok(y);
    }
    let planes = y.as_slice_mut().expect("standard layout is contiguous");
    planes
        .par_chunks_mut(problem.shape.spatial)
        .enumerate()
        .for_each(|(plane, values)| {
            let factor = scale[plane % problem.shape.c];
            for v in values {
                *v *= factor;
            }
        });
    Ok(y)
}
