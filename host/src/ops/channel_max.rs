//! Maximum over the channels.

use kernels_gpu::channel_max::CHANNEL_MAX;

use super::Arena;
use super::launching::{Argument, bytes, from_cpu, grid, launch};
use crate::cpu;
use crate::device::Tensor;
use crate::error::Result;
use crate::spec::ChannelMaxSpec;

const OPERATOR: &str = "channel_max";

/// `y[n, ..]` is the largest of `x[n, c, ..]` over `c`.
///
/// *Shapes*: `(n, c, *)` to `(n, *)`, with at least one channel.
///
/// *Numerics*: exact. A *NaN* in any channel gives NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for a rank below 2 or no channels.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 5.0], [4.0, 2.0]]])?;
/// assert_eq!(ops::channel_max(&x)?.to_array::<f32>()?, array![[4.0, 5.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As the values of [`torch.max`](https://docs.pytorch.org/docs/stable/generated/torch.max.html) over dimension 1.
pub fn channel_max(x: &Tensor) -> Result<Tensor> {
    channel_max_in(&mut Arena::fresh(), x)
}

pub(crate) fn channel_max_in(arena: &mut Arena, x: &Tensor) -> Result<Tensor> {
    let problem = ChannelMaxSpec.problem(x.shape())?;
    if x.device().is_cpu() {
        return from_cpu(x, cpu::channel_max(x.host_f32().view()));
    }
    let stream = x.stream();
    let geometry = problem.geometry()?;
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = arena.tensor(stream, &without_channels(x.shape()), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: the input has the problem's extents and the output the same without channels, the output is fresh,
    // and allocations start on 16 bytes.
    unsafe {
        launch(
            stream,
            &CHANNEL_MAX,
            &[x.dtype().label()],
            shape,
            (input.pointer(), y.output(), geometry),
        )?;
    }
    stream.moved(bytes(&[x, &y]));
    Ok(y)
}

/// `shape` less its second extent.
pub(super) fn without_channels(shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape.remove(1);
    shape
}
