//! Limiting values to an interval.

use kernels_gpu::clamp::CLAMP;

use super::Arena;
use super::launching::{Argument, bytes, from_cpu, grid, launch};
use crate::cpu;
use crate::device::Tensor;
use crate::error::Result;
use crate::spec::ClampSpec;
use crate::spec::launch::elementwise;

const OPERATOR: &str = "clamp";

/// `y = min(max(x, spec.min), spec.max)`, elementwise.
///
/// *Shapes*: any; the output has the input's.
///
/// *Numerics*: exact for f32; bounds are rounded to f32, results to the storage type.
///
/// *NaN* stays NaN. With `min > max` every number becomes `max`.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) if both bounds are absent.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::ClampSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![-2.0f32, 0.25, 7.0])?;
/// let y = ops::clamp(&x, &ClampSpec { min: Some(0.0), max: None })?;
/// assert_eq!(y.to_array::<f32>()?, array![0.0, 0.25, 7.0].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As [`torch.clamp`](https://docs.pytorch.org/docs/stable/generated/torch.clamp.html).
pub fn clamp(x: &Tensor, spec: &ClampSpec) -> Result<Tensor> {
    clamp_in(&mut Arena::fresh(), x, spec)
}

pub(crate) fn clamp_in(arena: &mut Arena, x: &Tensor, spec: &ClampSpec) -> Result<Tensor> {
    let problem = spec.problem(x.shape())?;
    if x.device().is_cpu() {
        return from_cpu(x, cpu::clamp(x.host_f32().view(), spec));
    }
    let stream = x.stream();
    let shape = grid(OPERATOR, elementwise::shape(problem.len as u64))?;
    let y = arena.tensor(stream, x.shape(), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: both tensors have `problem.len` elements, the output is fresh, and allocations start on 16 bytes.
    unsafe {
        launch(
            stream,
            &CLAMP,
            &[x.dtype().label()],
            shape,
            (
                input.pointer(),
                y.output(),
                problem.len as u64,
                problem.kernel_bounds(),
            ),
        )?;
    }
    stream.moved(bytes(&[x, &y]));
    Ok(y)
}
