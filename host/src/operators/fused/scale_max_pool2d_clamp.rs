//! `scale`, `max_pool2d`, `clamp`.

use kernels_gpu::fused::scale_max_pool2d_clamp::SCALE_MAX_POOL2D_CLAMP;

use crate::error::Result;
use crate::operators::launching::compute;
use crate::program::{ProgramBuilder, Value};
use crate::spec::PoolProblem;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::PoolGeometry;

/// Appends `clamp(max_pool2d(x * scale[c]))` in one kernel.
///
/// The kernel scales each element of a window, not the window's maximum: with a negative factor the smallest
/// element wins.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    scale: Value,
    pool: &PoolProblem,
    bounds: Bounds,
) -> Result<Value> {
    let geometry = PoolGeometry::of(pool)?;
    let y = program.tensor(&pool.output_shape(), program.dtype(x))?;
    let arguments = (x, scale, y, geometry, bounds);
    let (label, shape) = (program.label(x), geometry.shape());
    let family = &SCALE_MAX_POOL2D_CLAMP;
    // SAFETY: `x` and `y` have the problem's input and output shapes, `scale` has a value per channel.
    unsafe { compute(program, family, &label, shape, y, arguments) }
}
