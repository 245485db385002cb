use ndarray::{ArrayD, ArrayViewD};
use op_spec::PointwiseProblem;
use rayon::prelude::*;

use crate::error::Result;
use crate::host_memory::reserve;
use crate::ops::pointwise::map;

/// Elements that one task takes.
const TASK_ELEMENTS: usize = 1 << 14;

/// A function of each value by itself, in a tensor of any rank.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(super) fn pointwise(problem: &PointwiseProblem, x: ArrayViewD<'_, f32>) -> Result<ArrayD<f32>> {
    let mut y = reserve(x.len())?;
    match x.as_slice() {
        Some(values) => y.extend_from_slice(values),
        None => y.extend(x.iter().copied()),
    }
    let tasks = y.par_chunks_mut(TASK_ELEMENTS);
    tasks.for_each(|values| map(problem, values));
    Ok(ArrayD::from_shape_vec(x.raw_dim(), y).expect("as many elements"))
}
