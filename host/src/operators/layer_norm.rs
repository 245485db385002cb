//! Normalisation of each sample.

use kernels_gpu::layer_norm::LAYER_NORM_APPLY;
use launch_config::KernelGeometry;

use super::group_norm;
use super::launching::{Affine, compute, shape_of, single, with_or_without_batch};
use super::norm_statistics::{self, NormInput};
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{LayerNormProblem, LayerNormSpec};

/// `y = (x - mean) / sqrt(var + eps) * weight[c, ..] + bias[c, ..]`, with mean and (biased) variance over the
/// channels and positions of each sample.
///
/// *Shapes*: `x` is `(n, c, *)`, `normalized_shape` is `(c, *)`, all of the input's but the batch; `weight`
/// and `bias`, both optional, have it as well, one value for each element of a sample. The output has the
/// input's shape. An `x` of `normalized_shape` itself is a single sample. A norm of channels and space with a
/// weight and a bias for each *channel* is [`group_norm`](crate::ops::group_norm) with one group.
///
/// *Numerics*: as in [`group_norm`](crate::ops::group_norm), of which these are the statistics, and one
/// rounding more where there is a weight or a bias. A *NaN* or an infinity makes its whole sample NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a `normalized_shape` that is not the input's without the batch
/// (PyTorch also normalises fewer trailing dimensions), parameters of another shape, `eps` that is negative
/// or NaN. [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::LayerNormSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 3.0], [1.0, 3.0]]])?;
/// let bias = Tensor::from_array(&stream, &array![[0.0f32, 0.0], [10.0, 20.0]])?;
/// let spec = LayerNormSpec { eps: 0.0 };
/// let y = ops::layer_norm(&x, &[2, 2], None, Some(&bias), &spec)?.to_array::<f32>()?;
/// assert_eq!(y, array![[[-1.0, 1.0], [9.0, 21.0]]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As
/// [`torch.nn.functional.layer_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html).
pub fn layer_norm(
    x: &Tensor,
    normalized_shape: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &LayerNormSpec,
) -> Result<Tensor> {
    let (of_weight, of_bias) = (shape_of(weight), shape_of(bias));
    with_or_without_batch(x, normalized_shape.len() + 1, |x| {
        let problem = spec.problem(x.shape(), normalized_shape, of_weight, of_bias)?;
        let parameters = [("weight", weight), ("bias", bias)];
        single("layer_norm", x, problem.into(), &parameters)
    })
}

/// Appends both launches.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    problem: &LayerNormProblem,
) -> Result<Value> {
    if !problem.is_affine() {
        return group_norm::append(program, x, affine, problem.as_group_norm().geometry()?);
    }
    let y = program.tensor_like(x)?;
    if program.bytes(&[y]) == 0 {
        return Ok(y);
    }
    let norm = problem.geometry()?;
    let NormInput { partials, norm, .. } = norm_statistics::statistics(program, x, affine, norm)?;
    let apply = norm.apply(program.dtype(x).size() as u32);
    let arguments = (x, partials, affine.weight, affine.bias, y, apply);
    // SAFETY: `x` and `y` have `norm.elements()` elements; the partial results are those of `x`; weight and
    // bias have an element for each of a row's where they exist.
    unsafe { compute(program, &LAYER_NORM_APPLY, apply.shape(), y, arguments) }
}
