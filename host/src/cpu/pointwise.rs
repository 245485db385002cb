use ndarray::{ArrayD, ArrayViewD};
use op_spec::{PointwiseSpec, SpecError};
use rayon::prelude::*;

use crate::ops::pointwise::map;

/// Elements that one task takes.
const TASK_ELEMENTS: usize = 1 << 14;

/// A function of each value by itself.
///
/// # Errors
/// What [`PointwiseSpec::problem`] refuses.
pub(crate) fn pointwise(
    x: ArrayViewD<'_, f32>,
    function: &PointwiseSpec,
) -> Result<ArrayD<f32>, SpecError> {
    let problem = function.problem(x.shape())?;
    let mut y = x.as_standard_layout().into_owned();
    let values = y.as_slice_mut().expect("standard layout is contiguous");
    let tasks = values.par_chunks_mut(TASK_ELEMENTS);
    tasks.for_each(|values| map(&problem, values));
    Ok(y)
}
