//! Reductions over the channels.

use cuda_std::Label;

use super::launching::{compute, single};
use kernels_gpu::channel_reduction::CHANNEL_REDUCTION;
use launch_config::KernelGeometry;

use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{ChannelReductionProblem, ChannelReductionSpec};

/// `y[n, ..]` is what the operation makes of `x[n, c, ..]` over `c`, for each
/// [`ReductionOp`](crate::spec::ReductionOp): the largest, for example.
///
/// *Shapes*: `(n, c, *)` to `(n, *)`, or to `(n, 1, *)` with `keepdim`, with at least one channel.
///
/// *Numerics*: a result that is one of the values is exact. Any other is combined in f32, in an order that
/// does not depend on the batch, and rounded once. A *NaN* in any channel gives NaN.
///
/// # Errors
/// [`Error::Spec`](crate::Error::Spec) for a rank below 2, no channels, or a `dim` that is not the channels'.
///
/// # Examples
/// ```
/// use convfuse::spec::{ChannelReductionSpec, ReductionOp};
/// use convfuse::{Device, Tensor, ops};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 5.0], [4.0, 2.0]]])?;
/// let largest = ChannelReductionSpec::new(ReductionOp::Max, 1);
/// let y = ops::channel_reduction(&x, &largest)?;
/// assert_eq!(y.to_array::<f32>()?, array![[4.0, 5.0]].into_dyn());
/// # Ok::<(), convfuse::Error>(())
/// ```
///
/// As PyTorch's functions of the operations' names, such as
/// [`torch.amax`](https://docs.pytorch.org/docs/stable/generated/torch.amax.html), over dimension 1.
pub fn channel_reduction(x: &Tensor, spec: &ChannelReductionSpec) -> Result<Tensor> {
    let problem = spec.problem(x.shape())?;
    single(spec.operation.name(), x, problem.into(), &[])
}

/// Plans the launch.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    problem: &ChannelReductionProblem,
) -> Result<()> {
    let shape = problem.geometry()?.shape();
    plan.launch(&CHANNEL_REDUCTION, &labels(problem, dtype), shape)
}

/// The labels of the kernels that reduce tensors of `dtype`.
pub(super) fn labels(problem: &ChannelReductionProblem, dtype: DType) -> [Label; 2] {
    [problem.operation.name().into(), dtype.label()]
}

/// Appends the operator to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ChannelReductionProblem,
) -> Result<Value> {
    let geometry = problem.geometry()?;
    let y = output(program, x, problem)?;
    // SAFETY: `x` has the problem's extents, and `y` the same without channels.
    Ok(unsafe { compute(program, &CHANNEL_REDUCTION, y, (x, y, geometry)) })
}

/// The tensor of the reduced channels of `x`.
pub(super) fn output(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ChannelReductionProblem,
) -> Result<Value> {
    let shape = problem.output_shape(program.shape(x));
    program.tensor(&shape, program.dtype(x))
}
