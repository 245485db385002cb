//! `group_norm`, `scale`, `max_pool2d`, `clamp`.

use kernels_gpu::fused::group_norm_scale_max_pool2d_clamp::GROUP_NORM_SCALE_MAX_POOL2D_CLAMP;

use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::operators::norm_statistics::NormInput;
use crate::program::{ProgramBuilder, Value};
use crate::spec::PoolProblem;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::PoolGeometry;

/// Appends `clamp(max_pool2d(group_norm(x, weight, bias) * scale[c]))` after the norm's statistics, in one
/// kernel.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    input: &NormInput,
    scale: Option<Value>,
    pool: &PoolProblem,
    bounds: Bounds,
) -> Result<Value> {
    let &NormInput {
        x, partials, norm, ..
    } = input;
    let Affine { weight, bias } = input.affine;
    let geometry = PoolGeometry::of(pool)?;
    let family = &GROUP_NORM_SCALE_MAX_POOL2D_CLAMP;
    let y = program.tensor(&pool.output_shape(), program.dtype(x))?;
    let arguments = (x, partials, weight, bias, scale, y, norm, geometry, bounds);
    let (label, shape) = (program.label(x), geometry.norm_shape(&norm));
    // SAFETY: the pool's geometry describes `x` and `y`. The partial results are those of the norm's rows, to
    // whose channels the planes of `x` belong. Weight and bias have a value per channel if the geometry says
    // that they are present, and so has `scale`, if present.
    unsafe { compute(program, family, &label, shape, y, arguments) }
}
