//! Separate padding of a convolution's input, if it is not zeros, or differs between the two sides.

use kernels_gpu::conv::CONV_PAD;
use launch_config::pad::PadGeometry;

use crate::device::DType;
use crate::error::Result;
use crate::operators::launching::compute;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::ConvProblem;

/// Plans the launch that pads the input of a convolution, if it has separate padding.
pub(crate) fn plan<const D: usize>(
    plan: &mut LaunchPlan,
    dtype: DType,
    problem: &ConvProblem<D>,
) -> Result<()> {
    let Some(pad) = &problem.pad else {
        return Ok(());
    };
    let geometry = PadGeometry::of(pad, problem.n * problem.c)?;
    plan.launch(&CONV_PAD, &[dtype.label()], geometry.shape())
}

/// Appends the launch that pads `x`, `(n, c, *)`, if it has separate padding.
pub(crate) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ConvProblem<D>,
) -> Result<Value> {
    let Some(pad) = &problem.pad else {
        return Ok(x);
    };
    let mut shape = program.shape(x).to_vec();
    let geometry = PadGeometry::of(pad, problem.n * problem.c)?;
    shape[2..].copy_from_slice(&pad.outer());
    let y = program.tensor(&shape, program.dtype(x))?;
    // SAFETY: `x` has the geometry's planes of unpadded extents, and `y` those of padded extents, which
    // `geometry()` has found to be less than 2^31; the specification has refused padding that is too
    // wide for its mode.
    Ok(unsafe { compute(program, &CONV_PAD, y, (x, y, geometry)) })
}
