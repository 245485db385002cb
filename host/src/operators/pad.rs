//! Padding of a tensor's spatial axes by one launch, which pads each plane separately.

use kernels_gpu::conv::CONV_PAD;
use launch_config::pad::PadGeometry;

use super::launching::compute;
use crate::device::{DType, Order};
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};

/// Plans the launch.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, geometry: &PadGeometry) -> Result<()> {
    plan.launch(&CONV_PAD, &[dtype.label()], geometry.shape())
}

/// Appends the launch that pads `x`, whose memory consists of the geometry's planes. The output has this
/// shape and order, and its memory consists of the padded planes.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    geometry: &PadGeometry,
    output: &[usize],
    order: Order,
) -> Result<Value> {
    let y = program.tensor_as(output, program.dtype(x), order)?;
    // SAFETY: `x` has the geometry's planes of unpadded extents, and `y` those of padded extents, each with
    // less than 2^31 elements in a valid geometry. The specification has refused padding that is too wide for
    // its mode.
    Ok(unsafe { compute(program, &CONV_PAD, y, (x, y, *geometry)) })
}
