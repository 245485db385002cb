//! Padding of a tensor's spatial axes by one launch, which pads each plane separately.

use kernels_gpu::conv::CONV_PAD;
use launch_config::pad::PadGeometry;

use super::launching::compute;
use crate::device::Order;
use crate::error::Result;
use crate::program::{ProgramBuilder, Value};

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
    let (label, shape) = (program.label(x), geometry.shape());
    // SAFETY: `x` has the geometry's planes of unpadded extents, and `y` those of padded extents, each with
    // less than 2^31 elements in a valid geometry. The specification has refused padding that is too wide for
    // its mode.
    unsafe { compute(program, &CONV_PAD, &label, shape, y, (x, y, *geometry)) }
}
