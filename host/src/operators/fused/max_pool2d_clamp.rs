//! `max_pool2d`, `clamp`.

use kernels_gpu::fused::max_pool2d_clamp::MAX_POOL2D_CLAMP;
use launch_config::KernelGeometry;

use crate::error::Result;
use crate::operators::launching::compute;
use crate::program::{ProgramBuilder, Value};
use crate::spec::MaxPool2dProblem;
use launch_config::elementwise::Bounds;

/// Appends `clamp(max_pool2d(x))` in one kernel.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    pool: &MaxPool2dProblem,
    bounds: Bounds,
) -> Result<Value> {
    let geometry = pool.geometry()?;
    let y = program.tensor(&pool.output_shape(), program.dtype(x))?;
    let arguments = (x, y, geometry, bounds);
    let (label, shape) = (program.label(x), geometry.shape());
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe { compute(program, &MAX_POOL2D_CLAMP, &label, shape, y, arguments) }
}
