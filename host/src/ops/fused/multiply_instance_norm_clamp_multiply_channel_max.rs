//! Multiply, `instance_norm`, `clamp`, multiply, `channel_max`.

use kernels_gpu::fused::instance_norm_clamp_multiply_channel_max::INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_MAX;

use crate::error::Result;
use crate::ops::channel_max::without_channels;
use crate::ops::group_norm::{Statistics, statistics};
use crate::ops::launching::{Affine, grid};
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::channel_max::ChannelMaxGeometry;
use crate::spec::launch::elementwise::Bounds;
use crate::spec::{ChannelMaxProblem, ClampProblem, InstanceNormProblem};

const OPERATOR: &str = "multiply_instance_norm_clamp_multiply_channel_max";

/// Appends `channel_max(clamp(instance_norm(x * m[c], weight, bias)) * m[c])` in two kernels: the statistics of `x`, then
/// all the rest.
///
/// The first multiplication is folded into the norm, `norm(m x) = m (x - mean) / sqrt(m^2 var + eps)`, which is exact in
/// real arithmetic for every `m`, zero included; it saves a rounding.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    multiplier: Value,
    norm: &InstanceNormProblem,
    clamp: &ClampProblem,
    channel_max: &ChannelMaxProblem,
) -> Result<Value> {
    let norm = norm.geometry()?;
    let output = without_channels(program.shape(x));
    if output.iter().product::<usize>() == 0 {
        return program.tensor(&output, program.dtype(x));
    }
    let statistics = statistics(OPERATOR, program, x, &norm)?;
    normalise_and_reduce(
        program,
        x,
        &statistics,
        affine,
        multiplier,
        channel_max.geometry()?,
        clamp.kernel_bounds(),
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
        );
    }
    Ok(y)
}
