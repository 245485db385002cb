use ndarray::{ArrayD, ArrayView1, ArrayViewD};
use op_spec::{InstanceNormSpec, SpecError};

use super::group_norm::normalize_groups;

/// An instance norm, statistics in float64.
///
/// # Errors
/// What [`InstanceNormSpec::problem`] refuses.
pub(crate) fn instance_norm(
    x: ArrayViewD<'_, f32>,
    weight: Option<ArrayView1<'_, f32>>,
    bias: Option<ArrayView1<'_, f32>>,
    spec: &InstanceNormSpec,
) -> Result<ArrayD<f32>, SpecError> {
    let weight_shape = weight.as_ref().map(|weight| weight.shape());
    let bias_shape = bias.as_ref().map(|bias| bias.shape());
    let problem = spec.problem(x.shape(), weight_shape, bias_shape)?;
    Ok(normalize_groups(x, weight, bias, &problem.as_group_norm()))
}
