use ndarray::{ArrayD, ArrayView1, ArrayViewD};
use op_spec::{GroupNormSpec, InstanceNormSpec, SpecError};

use super::group_norm::normalize;

/// [`group_norm`](super::group_norm) with every channel a group of its own.
///
/// # Errors
/// What [`InstanceNormSpec::problem`] refuses.
pub fn instance_norm(
    x: ArrayViewD<'_, f64>,
    weight: Option<ArrayView1<'_, f64>>,
    bias: Option<ArrayView1<'_, f64>>,
    spec: &InstanceNormSpec,
) -> Result<ArrayD<f64>, SpecError> {
    let weight_shape = weight.as_ref().map(|weight| weight.shape());
    let bias_shape = bias.as_ref().map(|bias| bias.shape());
    let problem = spec.problem(x.shape(), weight_shape, bias_shape)?;
    let spec = GroupNormSpec {
        num_groups: problem.as_group_norm().num_groups,
        eps: spec.eps,
    };
    Ok(normalize(x, weight, bias, &spec))
}
