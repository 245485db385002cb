//! Separate padding of a convolution's input, for padding that is not zeros, or differs between the two
//! sides.

use launch_config::pad::PadGeometry;
use op_spec::ConvSpec;

use crate::device::Order;
use crate::error::Result;
use crate::operators::pad;
use crate::program::{ProgramBuilder, Value};
use crate::spec::ConvProblem;

/// Appends the launch that pads `x`, `(n, c, *)`, if the convolution has separate padding.
pub(super) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ConvProblem<D>,
) -> Result<Value> {
    let Some(of) = &problem.pad else {
        return Ok(x);
    };
    let geometry = PadGeometry::of(ConvSpec::<D>::OPERATOR, of, problem.n * problem.c)?;
    let mut shape = program.shape(x).to_vec();
    shape[2..].copy_from_slice(&of.outer());
    pad::append(program, x, &geometry, &shape, Order::Dense)
}
