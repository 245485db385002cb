//! Multiply, `instance_norm`, `clamp`, multiply, `channel_max`.

use kernels_gpu::fused::instance_norm_clamp_multiply_channel_max::INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX;

use super::clamp_multiply_channel_max_in;
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::channel_max::without_channels;
use crate::ops::group_norm::statistics;
use crate::ops::instance_norm::instance_norm_in;
use crate::ops::launching::{Affine, Argument, bytes, grid, launch, shape_of};
use crate::ops::scale::scale_in;
use crate::spec::launch::channel_max::ChannelMaxGeometry;
use crate::spec::launch::elementwise::Bounds;
use crate::spec::launch::norm::NormGeometry;
use crate::spec::{ChannelMaxSpec, ClampSpec, InstanceNormSpec, ScaleSpec};

const OPERATOR: &str = "multiply_instance_norm_clamp_multiply_channel_max";

/// `channel_max(clamp(instance_norm(x * m[c], weight, bias)) * m[c])` in two kernels: the statistics of `x`, then all the
/// rest.
///
/// The first multiplication is folded into the norm, `norm(m x) = m (x - mean) / sqrt(m^2 var + eps)`, which is exact in
/// real arithmetic for every `m`, zero included; it saves a rounding.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`scale`](crate::ops::scale()),
/// [`instance_norm`](crate::ops::instance_norm()), [`clamp`](crate::ops::clamp()) and
/// [`channel_max`](crate::ops::channel_max()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::{ClampSpec, InstanceNormSpec}};
/// use ndarray::{Array1, Array5};
///
/// let stream = Device::best().stream()?;
/// let volume = Array5::from_shape_fn((1, 2, 2, 3, 4), |(_, c, d, h, w)| (c + d * h + w) as f32);
/// let x = Tensor::from_array(&stream, &volume)?;
/// let m = Tensor::from_array(&stream, &Array1::<f32>::from_vec(vec![2.0, -0.5]))?;
/// let (norm, clamp) = (InstanceNormSpec::default(), ClampSpec::new(-1.0, 1.0));
/// let y = ops::multiply_instance_norm_clamp_multiply_channel_max(&x, None, None, &m, &norm, &clamp)?;
/// assert_eq!(y.shape(), [1, 2, 3, 4]);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn multiply_instance_norm_clamp_multiply_channel_max(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    multiplier: &Tensor,
    norm: &InstanceNormSpec,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    let arena = &mut Arena::fresh();
    multiply_instance_norm_clamp_multiply_channel_max_in(
        arena, x, weight, bias, multiplier, norm, clamp,
    )
}

pub(crate) fn multiply_instance_norm_clamp_multiply_channel_max_in(
    arena: &mut Arena,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    multiplier: &Tensor,
    norm: &InstanceNormSpec,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    ScaleSpec.problem(x.shape(), multiplier.shape())?;
    let normed = norm.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    let bounds = clamp.problem(x.shape())?.kernel_bounds();
    let problem = ChannelMaxSpec.problem(x.shape())?;
    Affine::open(OPERATOR, x, weight, bias)?;
    Argument::open(OPERATOR, "multiplier", multiplier, x)?;
    if x.device().is_cpu() {
        let multiplied = scale_in(arena, x, multiplier)?;
        let normed = instance_norm_in(arena, &multiplied, weight, bias, norm)?;
        return clamp_multiply_channel_max_in(arena, &normed, multiplier, clamp);
    }
    let norm = normed.geometry()?;
    let output = without_channels(x.shape());
    if output.iter().product::<usize>() == 0 {
        return arena.tensor(x.stream(), &output, x.dtype());
    }
    let partials = statistics(OPERATOR, arena, x, &norm)?;
    let parameters = Parameters {
        weight,
        bias,
        multiplier,
    };
    normalise_and_reduce(
        arena,
        x,
        &partials,
        &parameters,
        norm,
        problem.geometry()?,
        bounds,
    )
}

/// The per-channel parameters of norm and multiplications.
pub(crate) struct Parameters<'a> {
    pub(crate) weight: Option<&'a Tensor>,
    pub(crate) bias: Option<&'a Tensor>,
    pub(crate) multiplier: &'a Tensor,
}

/// All that follows the statistics of `x`, which `partials` has as `norm` says.
pub(crate) fn normalise_and_reduce(
    arena: &mut Arena,
    x: &Tensor,
    partials: &Tensor,
    parameters: &Parameters<'_>,
    norm: NormGeometry,
    geometry: ChannelMaxGeometry,
    bounds: Bounds,
) -> Result<Tensor> {
    let stream = x.stream();
    let shape = grid(OPERATOR, geometry.shape())?;
    let affine = Affine::open(OPERATOR, x, parameters.weight, parameters.bias)?;
    let factors = Argument::open(OPERATOR, "multiplier", parameters.multiplier, x)?;
    let y = arena.tensor(stream, &without_channels(x.shape()), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    let moments = partials.read_on(OPERATOR, "statistics", stream)?;
    // SAFETY: both geometries describe `x`, `y` has its shape without channels, all start on 16 bytes; the partial
    // results are those of `x`; weight and bias have a value per channel where the geometry says that they exist, and so
    // has `multiplier`; `y` is fresh.
    unsafe {
        launch(
            stream,
            &INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                moments.pointer(),
                affine.weight(),
                affine.bias(),
                factors.pointer(),
                y.output(),
                norm,
                geometry,
                bounds,
            ),
        )?;
    }
    stream.moved(bytes(&[x, partials, parameters.multiplier, &y]) + affine.bytes());
    Ok(y)
}
