//! `clamp`, multiply, `channel_max`.

use kernels_gpu::fused::clamp_multiply_channel_max::CLAMP_MULTIPLY_CHANNEL_MAX;

use crate::device::Tensor;
use crate::error::Result;
use crate::ops::channel_max::{channel_max, without_channels};
use crate::ops::launching::{grid, matching, once};
use crate::ops::{self, scale};
use crate::program::{ProgramBuilder, Read, Value, Write};
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
    clamp.problem(x.shape())?;
    ScaleSpec.problem(x.shape(), multiplier.shape())?;
    ChannelMaxSpec.problem(x.shape())?;
    matching(OPERATOR, x, &[("multiplier", Some(multiplier))])?;
    if x.device().is_cpu() {
        let multiplied = scale::scale(&ops::clamp(x, clamp)?, multiplier)?;
        return channel_max(&multiplied);
    }
    once(OPERATOR, x, |program, x| {
        let multiplier = program.parameter(multiplier);
        append(program, x, multiplier, clamp)
    })
}

/// Appends the operators to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    multiplier: Value,
    clamp: &ClampSpec,
) -> Result<Value> {
    let bounds = clamp.problem(program.shape(x))?.kernel_bounds();
    ScaleSpec.problem(program.shape(x), program.shape(multiplier))?;
    let problem = ChannelMaxSpec.problem(program.shape(x))?;
    let (geometry, dtype) = (problem.geometry()?, program.dtype(x));
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&without_channels(program.shape(x)), dtype)?;
    let bytes_moved = program.bytes(&[x, multiplier, y]);
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per channel.
    unsafe {
        let kernel = CLAMP_MULTIPLY_CHANNEL_MAX.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Read(multiplier), Write(y), geometry, bounds),
            bytes_moved,
        );
    }
    Ok(y)
}
