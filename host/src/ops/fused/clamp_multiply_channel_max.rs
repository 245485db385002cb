//! `clamp`, multiply, `channel_max`.

use kernels_gpu::fused::clamp_multiply_channel_max::CLAMP_MULTIPLY_CHANNEL_MAX;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::channel_max::{channel_max_in, without_channels};
use crate::ops::clamp::clamp_in;
use crate::ops::launching::{Argument, bytes, grid, launch};
use crate::ops::scale::scale_in;
use crate::spec::{ChannelMaxSpec, ClampSpec, ScaleSpec};

const OPERATOR: &str = "clamp_multiply_channel_max";

/// `channel_max(clamp(x) * multiplier[c])` in one kernel, for any number of channels.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`clamp`](crate::ops::clamp()), [`scale`](crate::ops::scale()) and
/// [`channel_max`](crate::ops::channel_max()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::ClampSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 5.0], [-4.0, 2.0]]])?;
/// let multiplier = Tensor::from_array(&stream, &array![1.0f32, -2.0])?;
/// let y = ops::clamp_multiply_channel_max(&x, &multiplier, &ClampSpec::new(-3.0, 3.0))?;
/// assert_eq!(y.to_array::<f32>()?, array![[6.0, 3.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn clamp_multiply_channel_max(
    x: &Tensor,
    multiplier: &Tensor,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    clamp_multiply_channel_max_in(&mut Arena::fresh(), x, multiplier, clamp)
}

pub(crate) fn clamp_multiply_channel_max_in(
    arena: &mut Arena,
    x: &Tensor,
    multiplier: &Tensor,
    clamp: &ClampSpec,
) -> Result<Tensor> {
    let bounds = clamp.problem(x.shape())?.kernel_bounds();
    ScaleSpec.problem(x.shape(), multiplier.shape())?;
    let problem = ChannelMaxSpec.problem(x.shape())?;
    let factors = Argument::open(OPERATOR, "multiplier", multiplier, x)?;
    if x.device().is_cpu() {
        let clamped = clamp_in(arena, x, clamp)?;
        let multiplied = scale_in(arena, &clamped, multiplier)?;
        return channel_max_in(arena, &multiplied);
    }
    let stream = x.stream();
    let geometry = problem.geometry()?;
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = arena.tensor(stream, &without_channels(x.shape()), x.dtype())?;
    let input = Argument::input(OPERATOR, x)?;
    // SAFETY: the input has the problem's extents and the output the same without channels, both start on 16 bytes;
    // `multiplier` has a value per channel; `y` is fresh.
    unsafe {
        launch(
            stream,
            &CLAMP_MULTIPLY_CHANNEL_MAX,
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
    stream.moved(bytes(&[x, multiplier, &y]));
    Ok(y)
}
