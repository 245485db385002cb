//! Separate padding of a convolution's input, if it is not zeros, or differs between the two sides.

use kernels_gpu::conv::CONV_PAD;
use launch_config::pad::PadGeometry;

use crate::error::Result;
use crate::operators::launching::compute;
use crate::program::{ProgramBuilder, Value};
use crate::spec::Pad;

/// Appends the launch that pads `x`, `(n, c, *)`, if it has separate padding.
pub(crate) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    pad: Option<&Pad<D>>,
) -> Result<Value> {
    let Some(pad) = pad else {
        return Ok(x);
    };
    let mut shape = program.shape(x).to_vec();
    let geometry = PadGeometry::of(pad, shape[0] * shape[1])?;
    shape[2..].copy_from_slice(&pad.outer());
    let y = program.tensor(&shape, program.dtype(x))?;
    // SAFETY: `x` has the geometry's planes of unpadded extents, and `y` those of padded extents, which
    // `geometry()` has found to be less than 2^31; the specification has refused padding that is too
    // wide for its mode.
    unsafe { compute(program, &CONV_PAD, geometry.shape(), y, (x, y, geometry)) }
}
