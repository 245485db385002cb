//! `group_norm`, `scale`.

use kernels_gpu::fused::group_norm_scale::GROUP_NORM_SCALE;
use kernels_gpu::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;

use crate::device::{LaunchError, Tensor};
use crate::error::{Error, Result};
use crate::ops::Arena;
use crate::ops::group_norm::{group_norm_in, statistics};
use crate::ops::launching::{Affine, Argument, bytes, grid, launch, shape_of};
use crate::ops::scale::scale_in;
use crate::spec::launch::norm::NormGeometry;
use crate::spec::{GroupNormSpec, ScaleSpec};

const OPERATOR: &str = "group_norm_scale";

/// `group_norm(x, weight, bias) * scale[c]`, the scale applied by the kernel that normalises.
///
/// Where groups are of a size that suits a GPU's shared memory, that kernel computes the statistics, too, and the input
/// is read once.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`group_norm`](crate::ops::group_norm()) and
/// [`scale`](crate::ops::scale()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::GroupNormSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 3.0], [5.0, 5.5]]])?;
/// let factors = Tensor::from_array(&stream, &array![2.0f32, -1.0])?;
/// let spec = GroupNormSpec::new(2);
/// let fused = ops::group_norm_scale(&x, None, None, &factors, &spec)?;
/// let composed = ops::scale(&ops::group_norm(&x, None, None, &spec)?, &factors)?;
/// assert_eq!(fused.to_array::<f32>()?, composed.to_array::<f32>()?);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn group_norm_scale(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    scale: &Tensor,
    spec: &GroupNormSpec,
) -> Result<Tensor> {
    group_norm_scale_in(&mut Arena::fresh(), x, weight, bias, scale, spec)
}

pub(crate) fn group_norm_scale_in(
    arena: &mut Arena,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    scale: &Tensor,
    spec: &GroupNormSpec,
) -> Result<Tensor> {
    let problem = spec.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    ScaleSpec.problem(x.shape(), scale.shape())?;
    let affine = Affine::open(OPERATOR, x, weight, bias)?;
    let factors = Argument::open(OPERATOR, "scale", scale, x)?;
    if x.device().is_cpu() {
        let normed = group_norm_in(arena, x, weight, bias, spec)?;
        return scale_in(arena, &normed, scale);
    }
    let geometry = problem.geometry()?;
    let y = arena.tensor(x.stream(), x.shape(), x.dtype())?;
    if y.is_empty() {
        return Ok(y);
    }
    let parameters = Parameters {
        affine,
        factors,
        scale,
    };
    if !resident(x, &parameters, &geometry, &y)? {
        two_passes(arena, x, &parameters, &geometry, &y)?;
    }
    Ok(y)
}

struct Parameters<'a> {
    affine: Affine<'a>,
    factors: Argument<'a>,
    scale: &'a Tensor,
}

/// One launch whose blocks keep their rows in shared memory between statistics and normalisation. Whether that pays, and
/// whether the device has the memory for it, decides if it is done.
fn resident(
    x: &Tensor,
    parameters: &Parameters<'_>,
    geometry: &NormGeometry,
    y: &Tensor,
) -> Result<bool> {
    let stream = x.stream();
    let Some(shape) = geometry.resident_shape(x.dtype().size() as u32) else {
        return Ok(false);
    };
    let Parameters {
        affine,
        factors,
        scale,
    } = parameters;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: as in `two_passes`, without partial results.
    let launched = unsafe {
        launch(
            stream,
            &GROUP_NORM_SCALE_RESIDENT,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                affine.weight(),
                affine.bias(),
                factors.pointer(),
                y.output(),
                *geometry,
            ),
        )
    };
    match launched {
        Err(Error::Launch(LaunchError::SharedMemory { .. })) => return Ok(false),
        launched => launched?,
    }
    stream.moved(bytes(&[x, scale, y]) + affine.bytes());
    Ok(true)
}

/// The statistics, then a pass that normalises and scales.
fn two_passes(
    arena: &mut Arena,
    x: &Tensor,
    parameters: &Parameters<'_>,
    geometry: &NormGeometry,
    y: &Tensor,
) -> Result<()> {
    let stream = x.stream();
    let apply = geometry.apply();
    let shape = grid(OPERATOR, apply.shape())?;
    let partials = statistics(OPERATOR, arena, x, geometry)?;
    let Parameters {
        affine,
        factors,
        scale,
    } = parameters;
    let (input, moments) = (
        Argument::input(OPERATOR, x)?,
        Argument::input(OPERATOR, &partials)?,
    );
    // SAFETY: `x` and `y` have `geometry.elements()` elements and start on 16 bytes; the partial results are those of
    // `x`; weight and bias have a value per channel where the geometry says that they exist, and so has `scale`; `y` is
    // fresh.
    unsafe {
        launch(
            stream,
            &GROUP_NORM_SCALE,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                moments.pointer(),
                affine.weight(),
                affine.bias(),
                factors.pointer(),
                y.output(),
                apply,
            ),
        )?;
    }
    stream.moved(bytes(&[x, &partials, scale, y]) + affine.bytes());
    Ok(())
}
