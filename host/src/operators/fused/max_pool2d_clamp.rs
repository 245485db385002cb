//! `max_pool2d`, `clamp`.

use kernels_gpu::fused::max_pool2d_clamp::MAX_POOL2D_CLAMP;

use crate::device::DType;
use crate::error::Result;
use crate::operators::launching::compute;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::PoolProblem;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::PoolGeometry;

/// Plans the kernel.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, pool: &PoolProblem) -> Result<()> {
    let shape = PoolGeometry::of(pool)?.shape();
    plan.launch(&MAX_POOL2D_CLAMP, &[dtype.label()], shape)
}

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
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    Ok(unsafe { compute(program, &MAX_POOL2D_CLAMP, y, arguments) })
}
