//! Normalisation of each sample.

use kernels_gpu::layer_norm::{LAYER_NORM_APPLY, LAYER_NORM_ROWS};
use launch_config::KernelGeometry;
use launch_config::layer_norm::LayerNormGeometry;

use super::group_norm;
use super::launching::{
    Affine, OwnKernels, Parameters, compute, shape_of, single, with_or_without_batch,
};
use super::norm_statistics::{self, NormInput};
use super::softmax::Operands;
use crate::device::Tensor;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{LayerNormProblem, LayerNormSpec};

/// `y = (x - mean) / sqrt(var + eps) * weight + bias`, with mean and (biased) variance over the last axes,
/// for example over channels and positions of each sample.
///
/// *Shapes*: `x` is `(n, c, *)`. `normalized_shape` has the extents of its last axes, never the batch;
/// `weight` and `bias`, both optional, have that shape. The output has the input's shape. An `x` of shape
/// `normalized_shape` is a single sample. A norm of channels and space with a weight and a bias for each
/// *channel* is [`group_norm`](crate::ops::group_norm) with one group.
///
/// *Numerics*: the statistics are those of [`group_norm`](crate::ops::group_norm). A weight or a bias adds
/// one rounding. A *NaN* or an infinity makes all values with the same mean NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): a `normalized_shape` that does not match the last axes, parameters of
/// another shape, `eps` that is negative or NaN. [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
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
/// let spec = LayerNormSpec::default().eps(0.0);
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
        single("layer_norm", x, problem, &parameters)
    })
}

/// Appends the launch for several rows per sample, with a list after the norm. The residual has the layout of
/// `x`.
pub(crate) fn append_rows(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    problem: &LayerNormProblem,
    operands: Operands,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let geometry = LayerNormGeometry::of(problem, affine.element_type(program, x))?;
    let Affine { weight, bias } = affine;
    let (gain, shift) = operands.gain_and_shift();
    let (residual, list) = (operands.residual, operands.list);
    let arguments = (x, weight, bias, residual, gain, shift, y, geometry, list);
    let (label, shape) = (program.label(x), geometry.rows.shape());
    // SAFETY: `x`, `y` and the residual have the geometry's elements, weight and bias those of a row; the
    // list's gain and shift have a value for each channel.
    unsafe { compute(program, &LAYER_NORM_ROWS, &label, shape, y, arguments) }
}

/// Appends the launches.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    problem: &LayerNormProblem,
) -> Result<Value> {
    if !problem.is_of_samples() {
        return append_rows(program, x, affine, problem, Operands::NONE);
    }
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
    let (label, shape) = (program.label(x), apply.shape());
    let arguments = (x, partials, affine.weight, affine.bias, y, apply);
    // SAFETY: `x` and `y` have `norm.elements()` elements; the partial results are those of `x`; weight and
    // bias, if present, have the elements of a row.
    unsafe { compute(program, &LAYER_NORM_APPLY, &label, shape, y, arguments) }
}

impl OwnKernels for LayerNormProblem {
    fn append(&self, program: &mut ProgramBuilder, x: Value, given: Parameters) -> Result<Value> {
        append(program, x, Affine::of(given), self)
    }
}
