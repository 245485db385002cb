//! `clamp`, multiply, a reduction over the channels.

use kernels_gpu::fused::clamp_multiply_channel_reduction::CLAMP_MULTIPLY_CHANNEL_REDUCTION;
use launch_config::elementwise::Bounds;

use crate::device::DType;
use crate::error::Result;
use crate::operators::launching::compute;
use crate::operators::reduction::OfChannels;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::ClampProblem;

/// Plans the kernel.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, reduction: &OfChannels) -> Result<()> {
    let (family, labels) = (&CLAMP_MULTIPLY_CHANNEL_REDUCTION, reduction.labels(dtype));
    plan.launch(family, &labels, reduction.geometry.shape())
}

/// Appends `reduce(clamp(x) * multiplier[c])` in one kernel, for any number of channels.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    multiplier: Value,
    clamp: &ClampProblem,
    reduction: &OfChannels,
) -> Result<Value> {
    let geometry = reduction.geometry;
    let y = reduction.output(program, x)?;
    let arguments = (x, multiplier, y, geometry, Bounds::of(clamp));
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per
    // channel.
    Ok(unsafe { compute(program, &CLAMP_MULTIPLY_CHANNEL_REDUCTION, y, arguments) })
}
