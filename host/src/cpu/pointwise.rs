use ndarray::{ArrayD, ArrayViewD};
use op_spec::PointwiseProblem;
use rayon::prelude::*;

use crate::ops::pointwise::map;

/// Elements that one task takes.
const TASK_ELEMENTS: usize = 1 << 14;

/// A function of each value by itself, in a tensor of any rank.
pub(super) fn pointwise(problem: &PointwiseProblem, x: ArrayViewD<'_, f32>) -> ArrayD<f32> {
    let mut y = x.as_standard_layout().into_owned();
    let values = y.as_slice_mut().expect("standard layout is contiguous");
    let tasks = values.par_chunks_mut(TASK_ELEMENTS);
    tasks.for_each(|values| map(problem, values));
    y
}
