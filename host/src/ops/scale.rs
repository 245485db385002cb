//! Multiplication by one factor per channel.

use kernels_gpu::scale::SCALE;

use ndarray::Ix1;

use super::Arena;
use super::launching::{Argument, bytes, from_cpu, grid, launch};
use crate::cpu;
use crate::device::Tensor;
use crate::error::Result;
use crate::spec::ScaleSpec;
use crate::spec::launch::elementwise;

const OPERATOR: &str = "scale";

/// `y[n, c, ..] = x[n, c, ..] * scale[c]`.
///
/// *Shapes*: `x` is `(n, c, *)`, `scale` is `(c)`; the output has the input's shape. In PyTorch this is
/// `x * scale.view(-1, 1, ..)`.
///
/// *Numerics*: one rounding. *NaN* and infinities follow IEEE 754 (`0 * inf` is NaN).
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for ranks and lengths that do not fit,
/// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch), [`Error::DeviceMismatch`](crate::Error::DeviceMismatch).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::{Array3, array};
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &Array3::<f32>::ones((1, 2, 3)))?;
/// let factors = Tensor::from_array(&stream, &array![2.0f32, -1.0])?;
/// let y = ops::scale(&x, &factors)?;
/// assert_eq!(y.to_array::<f32>()?, array![[[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0]]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn scale(x: &Tensor, scale: &Tensor) -> Result<Tensor> {
    scale_in(&mut Arena::fresh(), x, scale)
}

pub(crate) fn scale_in(arena: &mut Arena, x: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let problem = ScaleSpec.problem(x.shape(), scale.shape())?;
    let stream = x.stream();
    let factors = Argument::open(OPERATOR, "scale", scale, x)?;
    if x.device().is_cpu() {
        return from_cpu(
            x,
            cpu::scale(x.host_f32().view(), scale.host_f32_as::<Ix1>().view()),
        );
    }
    let geometry = problem.geometry()?;
    let shape = grid(OPERATOR, elementwise::shape(geometry.elements))?;
    let y = arena.tensor(stream, x.shape(), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: both tensors have `geometry.elements` elements, `scale` one per channel, the output is fresh, and
    // allocations start on 16 bytes.
    unsafe {
        launch(
            stream,
            &SCALE,
            &[x.dtype().label()],
            shape,
            (input.pointer(), factors.pointer(), y.output(), geometry),
        )?;
    }
    stream.moved(bytes(&[x, scale, &y]));
    Ok(y)
}
