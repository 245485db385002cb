//! `clamp`, multiply, a reduction over the channels.

use kernels_gpu::fused::clamp_multiply_channel_reduction::CLAMP_MULTIPLY_CHANNEL_REDUCTION;
use launch_config::elementwise::Bounds;

use crate::error::Result;
use crate::operators::launching::compute;
use crate::operators::reduction::OfChannels;
use crate::program::{ProgramBuilder, Value};
use crate::spec::ClampProblem;

/// Appends `reduce(clamp(x) * multiplier[c])` in one kernel, for any number of channels.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    multiplier: Value,
    clamp: &ClampProblem,
    reduction: &OfChannels,
) -> Result<Value> {
    let (family, geometry) = (&CLAMP_MULTIPLY_CHANNEL_REDUCTION, reduction.geometry);
    let y = reduction.output(program, x)?;
    let arguments = (x, multiplier, y, geometry, Bounds::of(clamp));
    let (labels, shape) = (reduction.labels(program.dtype(x)), geometry.shape());
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per
    // channel.
    unsafe { compute(program, family, &labels, shape, y, arguments) }
}
