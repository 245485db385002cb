//! `group_norm`, `scale`, `max_pool2d`, `clamp`.

use kernels_gpu::fused::group_norm_scale_max_pool2d_clamp::GROUP_NORM_SCALE_MAX_POOL2D_CLAMP;

use super::{group_norm_scale_in, max_pool2d_clamp_in};
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::group_norm::statistics;
use crate::ops::launching::{Affine, Argument, bytes, grid, launch, shape_of};
use crate::spec::launch::elementwise::Bounds;
use crate::spec::launch::max_pool2d::PoolGeometry;
use crate::spec::launch::norm::NormGeometry;
use crate::spec::{ClampSpec, GroupNormSpec, MaxPool2dSpec, ScaleSpec};

const OPERATOR: &str = "group_norm_scale_max_pool2d_clamp";

/// `clamp(max_pool2d(group_norm(x, weight, bias) * scale[c]))` in two kernels: the norm's statistics, then all the rest.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`group_norm`](crate::ops::group_norm()),
/// [`scale`](crate::ops::scale()), [`max_pool2d`](crate::ops::max_pool2d()) and [`clamp`](crate::ops::clamp()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::{ClampSpec, GroupNormSpec, MaxPool2dSpec}};
/// use ndarray::{Array1, Array4};
///
/// let stream = Device::best().stream()?;
/// let image = Array4::from_shape_fn((2, 6, 8, 8), |(n, c, h, w)| (n + c * h + w) as f32);
/// let x = Tensor::from_array(&stream, &image)?;
/// let ones = Tensor::from_array(&stream, &Array1::<f32>::ones(6))?;
/// let (norm, pool, clamp) = (GroupNormSpec::new(3), MaxPool2dSpec::new([4, 4]), ClampSpec::new(0.0, 1.0));
/// let y = ops::group_norm_scale_max_pool2d_clamp(&x, None, None, &ones, &norm, &pool, &clamp)?;
/// assert_eq!(y.shape(), [2, 6, 2, 2]);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn group_norm_scale_max_pool2d_clamp(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    scale: &Tensor,
    norm: &GroupNormSpec,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    group_norm_scale_max_pool2d_clamp_in(
        &mut Arena::fresh(),
        x,
        weight,
        bias,
        scale,
        norm,
        pool,
        clamp,
    )
}

#[allow(clippy::too_many_arguments, reason = "four operators' parameters")]
pub(crate) fn group_norm_scale_max_pool2d_clamp_in(
    arena: &mut Arena,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    scale: &Tensor,
    norm: &GroupNormSpec,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    let normed = norm.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    ScaleSpec.problem(x.shape(), scale.shape())?;
    let pooled = pool.problem(x.shape())?;
    let bounds = clamp.problem(&pooled.output_shape())?.kernel_bounds();
    Affine::open(OPERATOR, x, weight, bias)?;
    Argument::open(OPERATOR, "scale", scale, x)?;
    if x.device().is_cpu() {
        let scaled = group_norm_scale_in(arena, x, weight, bias, scale, norm)?;
        return max_pool2d_clamp_in(arena, &scaled, pool, clamp);
    }
    let (norm, pool) = (normed.geometry()?, pooled.geometry()?);
    let shape = pooled.output_shape();
    if shape.elements() == 0 {
        return arena.tensor(x.stream(), &shape, x.dtype());
    }
    let partials = statistics(OPERATOR, arena, x, &norm)?;
    let parameters = Parameters {
        weight,
        bias,
        scale,
    };
    normalise_and_pool(arena, x, &partials, &parameters, norm, pool, &shape, bounds)
}

/// The per-channel parameters of norm and scale.
pub(crate) struct Parameters<'a> {
    pub(crate) weight: Option<&'a Tensor>,
    pub(crate) bias: Option<&'a Tensor>,
    pub(crate) scale: &'a Tensor,
}

/// All that follows the norm's statistics, which `partials` has as `norm` says. `shape` is the output's.
#[allow(clippy::too_many_arguments, reason = "three operators' parameters")]
pub(crate) fn normalise_and_pool(
    arena: &mut Arena,
    x: &Tensor,
    partials: &Tensor,
    parameters: &Parameters<'_>,
    norm: NormGeometry,
    pool: PoolGeometry,
    output: &[usize],
    bounds: Bounds,
) -> Result<Tensor> {
    let stream = x.stream();
    let shape = grid(OPERATOR, pool.norm_shape(&norm))?;
    let affine = Affine::open(OPERATOR, x, parameters.weight, parameters.bias)?;
    let factors = Argument::open(OPERATOR, "scale", parameters.scale, x)?;
    let y = arena.tensor(stream, output, x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    let moments = partials.read_on(OPERATOR, "statistics", stream)?;
    // SAFETY: `pool` describes `x` and `y`, all start on 16 bytes; the partial results are those of the norm's rows, to
    // whose channels the planes of `x` belong; weight and bias have a value per channel where the geometry says that
    // they exist, and so has `scale`; `y` is fresh.
    unsafe {
        launch(
            stream,
            &GROUP_NORM_SCALE_MAX_POOL2D_CLAMP,
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
                pool,
                bounds,
            ),
        )?;
    }
    stream.moved(bytes(&[x, partials, parameters.scale, &y]) + affine.bytes());
    Ok(y)
}
