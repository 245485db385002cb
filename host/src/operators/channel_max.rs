//! Maximum over the channels.

use super::launching::{compute, single};
use kernels_gpu::channel_max::CHANNEL_MAX;
use launch_config::KernelGeometry;

use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{ChannelMaxProblem, ChannelMaxSpec};

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
/// As the values of [`torch.max`](https://docs.pytorch.org/docs/stable/generated/torch.max.html) over
/// dimension 1.
pub fn channel_max(x: &Tensor) -> Result<Tensor> {
    let problem = ChannelMaxSpec.problem(x.shape())?;
    single("channel_max", x, problem.into(), &[])
}

/// Plans the launch.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, problem: &ChannelMaxProblem) -> Result<()> {
    let shape = problem.geometry()?.shape();
    plan.launch(&CHANNEL_MAX, &[dtype.label()], shape)
}

/// Appends the operator to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ChannelMaxProblem,
) -> Result<Value> {
    let geometry = problem.geometry()?;
    let y = program.tensor(&without_channels(program.shape(x)), program.dtype(x))?;
    // SAFETY: `x` has the problem's extents, and `y` the same without channels.
    Ok(unsafe { compute(program, &CHANNEL_MAX, y, (x, y, geometry)) })
}

/// `shape` without its second extent.
pub(super) fn without_channels(shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape.remove(1);
    shape
}
