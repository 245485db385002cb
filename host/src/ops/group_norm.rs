//! Normalisation over groups of channels.

use super::launching::{Affine, grid, shape_of, single};
use kernels_gpu::group_norm::{GROUP_NORM_APPLY, GROUP_NORM_STATS};

use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::norm::NormGeometry;
use crate::spec::{GroupNormProblem, GroupNormSpec};

const OPERATOR: &str = "group_norm";

/// `y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c]`, with mean and (biased) variance over each group of
/// channels of each sample.
///
/// *Shapes*: `x` is `(n, c, *)`, `weight` and `bias`, both optional, are `(c)`; the output has the input's shape.
///
/// *Numerics*: statistics combine shifted partial sums in a fixed order, so that a mean a thousand times the
/// deviation costs no more than its own rounding, and results repeat bit for bit; `cond` is
/// `rstd * |weight| * (|x| + mean|x|) + |y| + |bias|` in the bound of [`ops`](crate::ops#numerics). A *NaN* or an
/// infinity makes its whole group NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec): channels that are no multiple of the groups, parameters of another length,
/// `eps` that is negative or NaN, a single value per group. [`Error::DTypeMismatch`](crate::Error::DTypeMismatch),
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
/// As [`torch.nn.functional.group_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html).
pub fn group_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &GroupNormSpec,
) -> Result<Tensor> {
    let problem = spec.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    let parameters = [("weight", weight), ("bias", bias)];
    single(OPERATOR, x, problem.into(), &parameters)
}

/// Appends the operator to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    problem: &GroupNormProblem,
) -> Result<Value> {
    normalise(OPERATOR, program, x, affine, problem.geometry()?)
}

/// The statistics of a norm's rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statistics {
    /// Partial results.
    pub(crate) partials: Value,
    /// The norm, which says how they lie.
    pub(crate) norm: NormGeometry,
}

/// The statistics of every row of `x`, as partial results that the kernels after it combine.
pub(super) fn statistics(
    operator: &'static str,
    program: &mut ProgramBuilder,
    x: Value,
    geometry: &NormGeometry,
) -> Result<Statistics> {
    let shape = grid(operator, geometry.stats_shape())?;
    let partials = program.tensor(&[geometry.partial_elements() as usize], DType::F32)?;
    // SAFETY: `x` has `geometry.elements()` elements and `partials` `geometry.partial_elements()`.
    unsafe {
        let kernel = GROUP_NORM_STATS.instance(&[program.dtype(x).label()])?;
        program.launch(kernel, shape, (Read(x), Write(partials), *geometry));
    }
    let norm = *geometry;
    Ok(Statistics { partials, norm })
}

/// Both launches of a norm. Instance norm is one, too, with a group per channel.
pub(super) fn normalise(
    operator: &'static str,
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    geometry: NormGeometry,
) -> Result<Value> {
    let dtype = program.dtype(x);
    let apply = geometry.apply();
    let shape = grid(operator, apply.shape())?;
    let y = program.tensor_like(x)?;
    if program.bytes(&[y]) == 0 {
        return Ok(y);
    }
    let Statistics { partials, .. } = statistics(operator, program, x, &geometry)?;
    // SAFETY: `x` and `y` have `geometry.elements()` elements; the partial results are those of `x`; weight and bias
    // have a value per channel where the geometry says that they exist.
    unsafe {
        let kernel = GROUP_NORM_APPLY.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (
                Read(x),
                Read(partials),
                affine.weight(),
                affine.bias(),
                Write(y),
                apply,
            ),
        );
    }
    Ok(y)
}
