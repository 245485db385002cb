//! `max_pool2d`, `clamp`.

use kernels_gpu::fused::max_pool2d_clamp::MAX_POOL2D_CLAMP;

use crate::error::Result;
use crate::ops::launching::grid;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::{ClampProblem, MaxPool2dProblem};

const OPERATOR: &str = "max_pool2d_clamp";

/// Appends `clamp(max_pool2d(x))` in one kernel.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    pool: &MaxPool2dProblem,
    clamp: &ClampProblem,
) -> Result<Value> {
    let (geometry, dtype) = (pool.geometry()?, program.dtype(x));
    let bounds = clamp.kernel_bounds();
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&pool.output_shape(), dtype)?;
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe {
        let kernel = MAX_POOL2D_CLAMP.instance(&[dtype.label()])?;
        program.launch(kernel, shape, (Read(x), Write(y), geometry, bounds));
    }
    Ok(y)
}
