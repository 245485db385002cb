//! Multiply, `instance_norm`, `clamp`, multiply, `channel_max`.

use super::clamp_multiply_channel_max;
use kernels_gpu::fused::instance_norm_clamp_multiply_channel_max::INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::channel_max::without_channels;
use crate::ops::group_norm::{Statistics, statistics};
use crate::ops::instance_norm::instance_norm;
use crate::ops::launching::{Affine, grid, matching, once, shape_of};
use crate::ops::scale::scale;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::channel_max::ChannelMaxGeometry;
use crate::spec::launch::elementwise::Bounds;
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
    ScaleSpec.problem(x.shape(), multiplier.shape())?;
    norm.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    let parameters = [
        ("weight", weight),
        ("bias", bias),
        ("multiplier", Some(multiplier)),
    ];
    matching(OPERATOR, x, &parameters)?;
    if x.device().is_cpu() {
        let normed = instance_norm(&scale(x, multiplier)?, weight, bias, norm)?;
        return clamp_multiply_channel_max::clamp_multiply_channel_max(&normed, multiplier, clamp);
    }
    once(OPERATOR, x, |program, x| {
        let affine = Affine::new(program, weight, bias);
        let multiplier = program.parameter(multiplier);
        append(program, x, affine, multiplier, norm, clamp)
    })
}

/// Appends the operators to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    multiplier: Value,
    norm: &InstanceNormSpec,
    clamp: &ClampSpec,
) -> Result<Value> {
    let [weight, bias] = affine.shapes(program);
    let shape = program.shape(x);
    ScaleSpec.problem(shape, program.shape(multiplier))?;
    let normed = norm.problem(shape, weight, bias)?;
    let bounds = clamp.problem(shape)?.kernel_bounds();
    let problem = ChannelMaxSpec.problem(shape)?;
    let norm = normed.geometry()?;
    let output = without_channels(shape);
    if output.iter().product::<usize>() == 0 {
        return program.tensor(&output, program.dtype(x));
    }
    let statistics = statistics(OPERATOR, program, x, &norm)?;
    let geometry = problem.geometry()?;
    normalise_and_reduce(
        program,
        x,
        &statistics,
        affine,
        multiplier,
        geometry,
        bounds,
    )
}

/// Appends all that follows the statistics of `x`.
pub(crate) fn normalise_and_reduce(
    program: &mut ProgramBuilder,
    x: Value,
    statistics: &Statistics,
    affine: Affine,
    multiplier: Value,
    geometry: ChannelMaxGeometry,
    bounds: Bounds,
) -> Result<Value> {
    let &Statistics { partials, norm } = statistics;
    let (shape, dtype) = (grid(OPERATOR, geometry.shape())?, program.dtype(x));
    let y = program.tensor(&without_channels(program.shape(x)), dtype)?;
    let bytes_moved = program.bytes(&[x, partials, multiplier, y]) + affine.bytes(program);
    // SAFETY: both geometries describe `x`, `y` has its shape without channels; the partial results are those of `x`;
    // weight and bias have a value per channel where the geometry says that they exist, and so has `multiplier`.
    unsafe {
        let kernel = INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (
                Read(x),
                Read(partials),
                affine.weight(),
                affine.bias(),
                Read(multiplier),
                Write(y),
                norm,
                geometry,
                bounds,
            ),
            bytes_moved,
        );
    }
    Ok(y)
}
