//! `clamp`, multiply, a reduction over the channels.

use kernels_gpu::fused::clamp_multiply_channel_reduction::CLAMP_MULTIPLY_CHANNEL_REDUCTION;
use launch_config::KernelGeometry;
use launch_config::elementwise::Bounds;

use crate::error::Result;
use crate::operators::channel_reduction::output;
use crate::operators::launching::compute_with;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{ChannelReductionProblem, ClampProblem};

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
    let (family, shape) = (&CLAMP_MULTIPLY_CHANNEL_REDUCTION, geometry.shape());
    let operation = reduction.operation.name();
    let arguments = (x, multiplier, y, geometry, Bounds::of(clamp));
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per
    // channel.
    unsafe { compute_with(program, family, &[operation], shape, y, arguments) }
}
