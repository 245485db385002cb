//! Normalisation over groups of channels.

use kernels_gpu::group_norm::{GROUP_NORM_APPLY, GROUP_NORM_STATS};

use super::Arena;
use super::launching::{Affine, Argument, bytes, from_cpu, grid, launch, on_host, shape_of, view};
use crate::cpu;
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::spec::GroupNormSpec;
use crate::spec::launch::norm::NormGeometry;

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
    group_norm_in(&mut Arena::fresh(), x, weight, bias, spec)
}

pub(crate) fn group_norm_in(
    arena: &mut Arena,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    spec: &GroupNormSpec,
) -> Result<Tensor> {
    let problem = spec.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    let affine = Affine::open(OPERATOR, x, weight, bias)?;
    if x.device().is_cpu() {
        let (weight, bias) = (on_host(weight), on_host(bias));
        return from_cpu(
            x,
            cpu::group_norm(x.host_f32().view(), view(&weight), view(&bias), spec),
        );
    }
    normalise(OPERATOR, arena, x, &affine, problem.geometry()?)
}

/// The statistics of every row of `x`, as partial results that the kernels after it combine.
pub(super) fn statistics(
    operator: &'static str,
    arena: &mut Arena,
    x: &Tensor,
    geometry: &NormGeometry,
) -> Result<Tensor> {
    let stream = x.stream();
    let shape = grid(operator, geometry.stats_shape())?;
    let partials = arena.tensor(stream, &[geometry.partial_elements() as usize], DType::F32)?;
    let input = Argument::input(operator, x)?;
    // SAFETY: `x` has `geometry.elements()` elements and `partials` `geometry.partial_elements()`; both start on 16
    // bytes, and nobody else has seen the partials.
    unsafe {
        launch(
            stream,
            &GROUP_NORM_STATS,
            &[x.dtype().label()],
            shape,
            (input.pointer(), partials.output(), *geometry),
        )?;
    }
    stream.moved(bytes(&[x, &partials]));
    Ok(partials)
}

/// Both launches of a norm. Instance norm is one, too, with a group per channel.
pub(super) fn normalise(
    operator: &'static str,
    arena: &mut Arena,
    x: &Tensor,
    affine: &Affine<'_>,
    geometry: NormGeometry,
) -> Result<Tensor> {
    let stream = x.stream();
    let apply = geometry.apply();
    let shape = grid(operator, apply.shape())?;
    let y = arena.tensor(stream, x.shape(), x.dtype())?;
    if y.is_empty() {
        return Ok(y);
    }
    let partials = statistics(operator, arena, x, &geometry)?;
    let input = Argument::input(operator, x)?;
    let statistics = partials.read_on(operator, "statistics", stream)?;
    // SAFETY: `x` and `y` have `geometry.elements()` elements and start on 16 bytes; the partial results are those of
    // `x`; weight and bias have a value per channel where the geometry says that they exist; `y` is fresh.
    unsafe {
        launch(
            stream,
            &GROUP_NORM_APPLY,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                statistics.pointer(),
                affine.weight(),
                affine.bias(),
                y.output(),
                apply,
            ),
        )?;
    }
    stream.moved(bytes(&[x, &y, &partials]) + affine.bytes());
    Ok(y)
}
