//! `clamp`, multiply, `channel_max`.

use kernels_gpu::fused::clamp_multiply_channel_max::CLAMP_MULTIPLY_CHANNEL_MAX;
use launch_config::KernelGeometry;
use launch_config::elementwise::Bounds;

use crate::device::DType;
use crate::error::Result;
use crate::operators::channel_max::without_channels;
use crate::operators::launching::compute;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{ChannelMaxProblem, ClampProblem};

/// Plans the kernel.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    channel_max: &ChannelMaxProblem,
) -> Result<()> {
    let shape = channel_max.geometry()?.shape();
    plan.launch(&CLAMP_MULTIPLY_CHANNEL_MAX, &[dtype.label()], shape)
}

/// Appends `channel_max(clamp(x) * multiplier[c])` in one kernel, for any number of channels.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    multiplier: Value,
    clamp: &ClampProblem,
    channel_max: &ChannelMaxProblem,
) -> Result<Value> {
    let geometry = channel_max.geometry()?;
    let y = program.tensor(&without_channels(program.shape(x)), program.dtype(x))?;
    let arguments = (x, multiplier, y, geometry, Bounds::of(clamp));
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per
    // channel.
    Ok(unsafe { compute(program, &CLAMP_MULTIPLY_CHANNEL_MAX, y, arguments) })
}
