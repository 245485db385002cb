//! `max_pool2d`, `clamp`.

use kernels_gpu::fused::max_pool2d_clamp::MAX_POOL2D_CLAMP;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::clamp::clamp_in;
use crate::ops::launching::{Argument, bytes, grid, launch};
use crate::ops::max_pool2d::max_pool2d_in;
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
    max_pool2d_clamp_in(&mut Arena::fresh(), x, pool, clamp)
}

pub(crate) fn max_pool2d_clamp_in(
    arena: &mut Arena,
    x: &Tensor,
    pool: &MaxPool2dSpec,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    let problem = pool.problem(x.shape())?;
    let bounds = clamp.problem(&problem.output_shape())?.kernel_bounds();
    if x.device().is_cpu() {
        let pooled = max_pool2d_in(arena, x, pool)?;
        return clamp_in(arena, &pooled, clamp);
    }
    let stream = x.stream();
    let geometry = problem.geometry()?;
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = arena.tensor(stream, &problem.output_shape(), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: the tensors have the problem's input and output shapes and start on 16 bytes; `y` is fresh.
    unsafe {
        launch(
            stream,
            &MAX_POOL2D_CLAMP,
            &[x.dtype().label()],
            shape,
            (input.pointer(), y.output(), geometry, bounds),
        )?;
    }
    stream.moved(bytes(&[x, &y]));
    Ok(y)
}
