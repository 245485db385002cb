use ndarray::{ArrayD, ArrayView1, ArrayViewD};
use op_spec::{GroupNormProblem, GroupNormSpec, SpecError};
use rayon::prelude::*;

use super::moments::{Moments, normalize};

/// A group norm, statistics in float64.
///
/// # Errors
/// What [`GroupNormSpec::problem`] refuses.
pub(crate) fn group_norm(
    x: ArrayViewD<'_, f32>,
    weight: Option<ArrayView1<'_, f32>>,
    bias: Option<ArrayView1<'_, f32>>,
    spec: &GroupNormSpec,
) -> Result<ArrayD<f32>, SpecError> {
    let weight_shape = weight.as_ref().map(|weight| weight.shape());
    let bias_shape = bias.as_ref().map(|bias| bias.shape());
    let problem = spec.problem(x.shape(), weight_shape, bias_shape)?;
    Ok(normalize_groups(x, weight, bias, &problem))
}

pub(super) fn normalize_groups(
    x: ArrayViewD<'_, f32>,
    weight: Option<ArrayView1<'_, f32>>,
    bias: Option<ArrayView1<'_, f32>>,
    problem: &GroupNormProblem,
) -> ArrayD<f32> {
    let mut y = x.as_standard_layout().into_owned();
    if y.is_empty() {
        return y;
    }
    let groups = y.as_slice_mut().expect("standard layout is contiguous");
    groups
        .par_chunks_mut(problem.group_len())
        .enumerate()
        .for_each(|(index, group)| {
            let moments = Moments::of(group);
            let rstd = moments.rstd(problem.eps);
            let first = index % problem.num_groups * problem.channels_per_group();
            for (c, channel) in (first..).zip(group.chunks_exact_mut(problem.shape.spatial)) {
                let weight = weight.map_or(1.0, |weight| f64::from(weight[c]));
                let bias = bias.map_or(0.0, |bias| f64::from(bias[c]));
                normalize(channel, moments.mean, rstd * weight, bias);
            }
        });
    y
}
