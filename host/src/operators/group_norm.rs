//! Normalisation over groups of channels.

use super::fused::group_norm_scale_pointwise::{self, Tail};
use super::launching::{Affine, OwnKernels, Parameters, shape_of, single};
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{GroupNormProblem, GroupNormSpec};
use launch_config::KernelGeometry;
use launch_config::norm::NormGeometry;

/// `y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c]`, with mean and (biased) variance over each group
/// of channels of each sample.
///
/// *Shapes*: `x` is `(n, c, *)`, `weight` and `bias`, both optional, are `(c)`; the output has the input's
/// shape.
///
/// *Numerics*: statistics combine shifted partial sums in a fixed order, so results repeat bit for bit. A
/// mean a thousand times the deviation costs no more than its own rounding. `cond` is
/// `rstd * |weight| * (|x| + mean|x|) + |y| + |bias|` in the bound of [`ops`](crate::ops#numerics). A *NaN*
/// or an infinity makes its whole group NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): channels that are not a multiple of the groups, parameters of another
/// length, `eps` that is negative or NaN, a single value per group.
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::GroupNormSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 3.0], [10.0, 30.0]]])?;
/// let y = ops::group_norm(&x, None, None, &GroupNormSpec::new(2))?.to_array::<f32>()?;
/// assert!((y[[0, 0, 0]] + 1.0).abs() < 1e-4 && (y[[0, 1, 1]] - 1.0).abs() < 1e-4);
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.group_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html).
pub fn group_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &GroupNormSpec,
) -> Result<Tensor> {
    let problem = spec.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    let parameters = [("weight", weight), ("bias", bias)];
    single("group_norm", x, problem, &parameters)
}

/// Appends both launches of a norm. Instance norm is a group norm with one group per channel.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    norm: NormGeometry,
) -> Result<Value> {
    group_norm_scale_pointwise::append(program, x, affine, norm, Tail::NONE)
}

impl OwnKernels for GroupNormProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        append(program, x, Affine::of(given), self.geometry()?)
    }
}
