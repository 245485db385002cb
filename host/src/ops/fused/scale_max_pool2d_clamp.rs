//! `scale`, `max_pool2d`, `clamp`.

use super::max_pool2d_clamp;
use kernels_gpu::fused::scale_max_pool2d_clamp::SCALE_MAX_POOL2D_CLAMP;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::launching::{grid, matching, once};
use crate::ops::scale;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::{ClampSpec, MaxPool2dSpec, ScaleSpec};

const OPERATOR: &str = "scale_max_pool2d_clamp";

/// `clamp(max_pool2d(x * scale[c]))` in one kernel.
///
/// Each element of a window is scaled, not the window's maximum: under a negative factor the smallest element wins.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`scale`](crate::ops::scale()),
/// [`max_pool2d`](crate::ops::max_pool2d()) and [`clamp`](crate::ops::clamp()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::{ClampSpec, MaxPool2dSpec}};
/// use ndarray::{array, Array4};
///
/// let stream = Device::best().stream()?;
/// let image = Array4::from_shape_fn((1, 1, 2, 2), |(_, _, h, w)| (2 * h + w) as f32);
/// let x = Tensor::from_array(&stream, &image)?;
/// let factor = Tensor::from_array(&stream, &array![-3.0f32])?;
/// let clamp = ClampSpec { min: None, max: Some(9.0) };
/// let y = ops::scale_max_pool2d_clamp(&x, &factor, &MaxPool2dSpec::new([2, 2]), &clamp)?;
/// assert_eq!(y.to_array::<f32>()?[[0, 0, 0, 0]], 0.0);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn scale_max_pool2d_clamp(
    x: &Tensor,
    scale: &Tensor,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    ScaleSpec.problem(x.shape(), scale.shape())?;
    pool.problem(x.shape())?;
    matching(OPERATOR, x, &[("scale", Some(scale))])?;
    if x.device().is_cpu() {
        return max_pool2d_clamp::max_pool2d_clamp(&scale::scale(x, scale)?, pool, clamp);
    }
    once(OPERATOR, x, |program, x| {
        let scale = program.parameter(scale);
        append(program, x, scale, pool, clamp)
    })
}

/// Appends the operators to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    scale: Value,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Value> {
    ScaleSpec.problem(program.shape(x), program.shape(scale))?;
    let problem = pool.problem(program.shape(x))?;
    let bounds = clamp.problem(&problem.output_shape())?.kernel_bounds();
    let (geometry, dtype) = (problem.geometry()?, program.dtype(x));
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&problem.output_shape(), dtype)?;
    let bytes_moved = program.bytes(&[x, scale, y]);
    // SAFETY: `x` and `y` have the problem's input and output shapes, `scale` has a value per channel.
    unsafe {
        let kernel = SCALE_MAX_POOL2D_CLAMP.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Read(scale), Write(y), geometry, bounds),
            bytes_moved,
        );
    }
    Ok(y)
}
