//! `max_pool2d`, `clamp`.

use kernels_gpu::fused::max_pool2d_clamp::MAX_POOL2D_CLAMP;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::launching::{grid, once};
use crate::ops::{self, max_pool2d};
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::{ClampSpec, MaxPool2dSpec};

const OPERATOR: &str = "max_pool2d_clamp";

/// `clamp(max_pool2d(x))` in one kernel.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`max_pool2d`](crate::ops::max_pool2d()) and
/// [`clamp`](crate::ops::clamp()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::{ClampSpec, MaxPool2dSpec}};
/// use ndarray::Array4;
///
/// let stream = Device::best().stream()?;
/// let image = Array4::from_shape_fn((1, 1, 4, 4), |(_, _, h, w)| (4 * h + w) as f32);
/// let x = Tensor::from_array(&stream, &image)?;
/// let y = ops::max_pool2d_clamp(&x, &MaxPool2dSpec::new([2, 2]), &ClampSpec::new(6.0, 14.0))?;
/// assert_eq!(y.to_array::<f32>()?.iter().copied().collect::<Vec<_>>(), [6.0, 7.0, 13.0, 14.0]);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn max_pool2d_clamp(x: &Tensor, pool: &MaxPool2dSpec, clamp: &ClampSpec) -> Result<Tensor> {
    if x.device().is_cpu() {
        return ops::clamp(&max_pool2d::max_pool2d(x, pool)?, clamp);
    }
    once(OPERATOR, x, |program, x| append(program, x, pool, clamp))
}

/// Appends the operators to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Value> {
    let problem = pool.problem(program.shape(x))?;
    let bounds = clamp.problem(&problem.output_shape())?.kernel_bounds();
    let (geometry, dtype) = (problem.geometry()?, program.dtype(x));
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&problem.output_shape(), dtype)?;
    let bytes_moved = program.bytes(&[x, y]);
    // SAFETY: `x` and `y` have the problem's input and output shapes.
    unsafe {
        let kernel = MAX_POOL2D_CLAMP.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Write(y), geometry, bounds),
            bytes_moved,
        );
    }
    Ok(y)
}
