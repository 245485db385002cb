//! `group_norm`, `scale`, `max_pool2d`, `clamp`.

use super::{group_norm_scale, max_pool2d_clamp};
use kernels_gpu::fused::group_norm_scale_max_pool2d_clamp::GROUP_NORM_SCALE_MAX_POOL2D_CLAMP;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::group_norm::{Statistics, statistics};
use crate::ops::launching::{Affine, grid, matching, once, shape_of};
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::elementwise::Bounds;
use crate::spec::launch::max_pool2d::PoolGeometry;
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
    norm.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    ScaleSpec.problem(x.shape(), scale.shape())?;
    pool.problem(x.shape())?;
    let parameters = [("weight", weight), ("bias", bias), ("scale", Some(scale))];
    matching(OPERATOR, x, &parameters)?;
    if x.device().is_cpu() {
        let scaled = group_norm_scale::group_norm_scale(x, weight, bias, scale, norm)?;
        return max_pool2d_clamp::max_pool2d_clamp(&scaled, pool, clamp);
    }
    once(OPERATOR, x, |program, x| {
        let affine = Affine::new(program, weight, bias);
        let scale = program.parameter(scale);
        append(program, x, affine, scale, norm, pool, clamp)
    })
}

/// Appends the operators to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Value,
    norm: &GroupNormSpec,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Value> {
    let [weight, bias] = affine.shapes(program);
    let normed = norm.problem(program.shape(x), weight, bias)?;
    ScaleSpec.problem(program.shape(x), program.shape(scale))?;
    let pooled = pool.problem(program.shape(x))?;
    let shape = pooled.output_shape();
    let bounds = clamp.problem(&shape)?.kernel_bounds();
    let (norm, pool) = (normed.geometry()?, pooled.geometry()?);
    if shape.elements() == 0 {
        return program.tensor(&shape, program.dtype(x));
    }
    let statistics = statistics(OPERATOR, program, x, &norm)?;
    normalise_and_pool(program, x, &statistics, affine, scale, pool, &shape, bounds)
}

/// Appends all that follows the norm's statistics. `output` is the shape of the result.
#[allow(clippy::too_many_arguments, reason = "three operators' parameters")]
pub(crate) fn normalise_and_pool(
    program: &mut ProgramBuilder,
    x: Value,
    statistics: &Statistics,
    affine: Affine,
    scale: Value,
    pool: PoolGeometry,
    output: &[usize],
    bounds: Bounds,
) -> Result<Value> {
    let &Statistics { partials, norm } = statistics;
    let (shape, dtype) = (grid(OPERATOR, pool.norm_shape(&norm))?, program.dtype(x));
    let y = program.tensor(output, dtype)?;
    let bytes_moved = program.bytes(&[x, partials, scale, y]) + affine.bytes(program);
    // SAFETY: `pool` describes `x` and `y`; the partial results are those of the norm's rows, to whose channels the
    // planes of `x` belong; weight and bias have a value per channel where the geometry says that they exist, and so
    // has `scale`.
    unsafe {
        let kernel = GROUP_NORM_SCALE_MAX_POOL2D_CLAMP.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (
                Read(x),
                Read(partials),
                affine.weight(),
                affine.bias(),
                Read(scale),
                Write(y),
                norm,
                pool,
                bounds,
            ),
            bytes_moved,
        );
    }
    Ok(y)
}
