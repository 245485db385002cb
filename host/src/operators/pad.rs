//! Values around the spatial axes of a tensor: one launch, which pads each plane by itself.

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

/// Appends the launch that pads `x`, whose memory is the geometry's planes, to an output of this shape and
/// order, whose memory is the padded planes.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    geometry: &PadGeometry,
    output: &[usize],
    order: Order,
) -> Result<Value> {
    let y = program.tensor_as(output, program.dtype(x), order)?;
    // SAFETY: `x` has the geometry's planes of unpadded extents, and `y` those of padded extents, which are
    // less than 2^31 where there is a geometry; the specification has refused padding that is too wide for
    // its mode.
    Ok(unsafe { compute(program, &CONV_PAD, y, (x, y, *geometry)) })
}
