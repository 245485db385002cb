//! `scale`, `max_pool2d`, `clamp`.

use kernels_gpu::fused::scale_max_pool2d_clamp::SCALE_MAX_POOL2D_CLAMP;

use super::max_pool2d_clamp_in;
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::launching::{Argument, bytes, grid, launch};
use crate::ops::scale::scale_in;
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
    let arena = &mut Arena::fresh();
    ScaleSpec.problem(x.shape(), scale.shape())?;
    let problem = pool.problem(x.shape())?;
    let bounds = clamp.problem(&problem.output_shape())?.kernel_bounds();
    let factors = Argument::open(OPERATOR, "scale", scale, x)?;
    if x.device().is_cpu() {
        let scaled = scale_in(arena, x, scale)?;
        return max_pool2d_clamp_in(arena, &scaled, pool, clamp);
    }
    let stream = x.stream();
    let geometry = problem.geometry()?;
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = arena.tensor(stream, &problem.output_shape(), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: the tensors have the problem's input and output shapes and start on 16 bytes, `scale` has a value per
    // channel, and `y` is fresh.
    unsafe {
        launch(
            stream,
            &SCALE_MAX_POOL2D_CLAMP,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                factors.pointer(),
                y.output(),
                geometry,
                bounds,
            ),
        )?;
    }
    stream.moved(bytes(&[x, scale, &y]));
    Ok(y)
}
