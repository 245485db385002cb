//! `group_norm`, `scale`, `max_pool2d`, `clamp`.

use kernels_gpu::fused::group_norm_scale_max_pool2d_clamp::GROUP_NORM_SCALE_MAX_POOL2D_CLAMP;

use crate::error::Result;
use crate::ops::group_norm::{Statistics, statistics};
use crate::ops::launching::{Affine, grid};
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::elementwise::Bounds;
use crate::spec::launch::max_pool2d::PoolGeometry;
use crate::spec::{ClampProblem, GroupNormProblem, MaxPool2dProblem};

const OPERATOR: &str = "group_norm_scale_max_pool2d_clamp";

/// Appends `clamp(max_pool2d(group_norm(x, weight, bias) * scale[c]))` in two kernels: the norm's statistics, then all the
/// rest.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Value,
    norm: &GroupNormProblem,
    pool: &MaxPool2dProblem,
    clamp: &ClampProblem,
) -> Result<Value> {
    let (shape, bounds) = (pool.output_shape(), clamp.kernel_bounds());
    let (norm, pool) = (norm.geometry()?, pool.geometry()?);
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
        );
    }
    Ok(y)
}
