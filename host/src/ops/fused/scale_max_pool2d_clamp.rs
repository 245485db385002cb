//! `scale`, `max_pool2d`, `clamp`.

use kernels_gpu::fused::scale_max_pool2d_clamp::SCALE_MAX_POOL2D_CLAMP;

use crate::error::Result;
use crate::ops::launching::grid;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::{ClampProblem, MaxPool2dProblem};

const OPERATOR: &str = "scale_max_pool2d_clamp";

/// Appends `clamp(max_pool2d(x * scale[c]))` in one kernel.
///
/// Each element of a window is scaled, not the window's maximum: under a negative factor the smallest element wins.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    scale: Value,
    pool: &MaxPool2dProblem,
    clamp: &ClampProblem,
) -> Result<Value> {
    let (geometry, dtype) = (pool.geometry()?, program.dtype(x));
    let bounds = clamp.kernel_bounds();
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&pool.output_shape(), dtype)?;
    // SAFETY: `x` and `y` have the problem's input and output shapes, `scale` has a value per channel.
    unsafe {
        let kernel = SCALE_MAX_POOL2D_CLAMP.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Read(scale), Write(y), geometry, bounds),
        );
    }
    Ok(y)
}
