//! `max_pool2d`, `clamp`.

use kernels_gpu::fused::max_pool2d_clamp::MAX_POOL2D_CLAMP;

use crate::error::Result;
use crate::operators::launching::compute;
use crate::program::{ProgramBuilder, Value};
use crate::spec::PoolProblem;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::PoolGeometry;

/// Appends `clamp(max_pool2d(x))` in one kernel.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    pool: &PoolProblem,
    bounds: Bounds,
) -> Result<Value> {
    let geometry = PoolGeometry::of(pool)?;
    let y = program.tensor(&pool.output_shape(), program.dtype(x))?;
    let arguments = (x, y, geometry, bounds);
    let (label, shape) = (program.label(x), geometry.shape());
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe { compute(program, &MAX_POOL2D_CLAMP, &label, shape, y, arguments) }
}
