//! `clamp`, multiply, `channel_max`.

use kernels_gpu::fused::clamp_multiply_channel_max::CLAMP_MULTIPLY_CHANNEL_MAX;

use crate::error::Result;
use crate::ops::channel_max::without_channels;
use crate::ops::launching::grid;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::{ChannelMaxProblem, ClampProblem};

const OPERATOR: &str = "clamp_multiply_channel_max";

/// Appends `channel_max(clamp(x) * multiplier[c])` in one kernel, for any number of channels.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    multiplier: Value,
    clamp: &ClampProblem,
    channel_max: &ChannelMaxProblem,
) -> Result<Value> {
    let (geometry, dtype) = (channel_max.geometry()?, program.dtype(x));
    let bounds = clamp.kernel_bounds();
    let shape = grid(OPERATOR, geometry.shape())?;
    let y = program.tensor(&without_channels(program.shape(x)), dtype)?;
    // SAFETY: `x` has the problem's extents and `y` the same without channels; `multiplier` has a value per channel.
    unsafe {
        let kernel = CLAMP_MULTIPLY_CHANNEL_MAX.instance(&[dtype.label()])?;
        program.launch(
            kernel,
            shape,
            (Read(x), Read(multiplier), Write(y), geometry, bounds),
        );
    }
    Ok(y)
}
