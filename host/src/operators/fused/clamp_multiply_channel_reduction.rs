//! `clamp`, multiply, a reduction over the channels.

use kernels_gpu::fused::clamp_multiply_channel_reduction::CLAMP_MULTIPLY_CHANNEL_REDUCTION;
use launch_config::KernelGeometry;
use launch_config::elementwise::Bounds;

use crate::device::DType;
use crate::error::Result;
use crate::operators::channel_reduction::{labels, output};
use crate::operators::launching::compute;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{ChannelReductionProblem, ClampProblem};

/// Plans the kernel.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    reduction: &ChannelReductionProblem,
) -> Result<()> {
    let (family, labels) = (&CLAMP_MULTIPLY_CHANNEL_REDUCTION, labels(reduction, dtype));
    plan.launch(family, &labels, reduction.geometry()?.shape())
}

/// Appends `reduce(clamp(x) * multiplier[c])` in one kernel, for any number of channels.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    multiplier: Value,
    clamp: &ClampProblem,
    reduction: &ChannelReductionProblem,
) -> Result<Value> {
    let geometry = reduction.geometry()?;
    let y = output(program, x, reduction)?;
    let arguments = (x, multiplier, y, geometry, Bounds::of(clamp));
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per
    // channel.
    Ok(unsafe { compute(program, &CLAMP_MULTIPLY_CHANNEL_REDUCTION, y, arguments) })
}
