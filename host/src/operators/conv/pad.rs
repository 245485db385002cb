//! Separate padding of a convolution's input, for padding that is not zeros, or differs between the two
//! sides.

use launch_config::pad::PadGeometry;
use op_spec::ConvSpec;

use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::pad;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::ConvProblem;

/// Plans the launch that pads the input of a convolution, if the convolution has separate padding.
pub(crate) fn plan<const D: usize>(
    plan: &mut LaunchPlan,
    dtype: DType,
    problem: &ConvProblem<D>,
) -> Result<()> {
    geometry(problem)?.map_or(Ok(()), |geometry| pad::plan(plan, dtype, &geometry))
}

/// Appends the launch that pads `x`, `(n, c, *)`, if the convolution has separate padding.
pub(crate) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &ConvProblem<D>,
) -> Result<Value> {
    let (Some(of), Some(geometry)) = (&problem.pad, geometry(problem)?) else {
        return Ok(x);
    };
    let mut shape = program.shape(x).to_vec();
    shape[2..].copy_from_slice(&of.outer());
    pad::append(program, x, &geometry, &shape, Order::Dense)
}

fn geometry<const D: usize>(problem: &ConvProblem<D>) -> Result<Option<PadGeometry>> {
    let of = |pad| PadGeometry::of(ConvSpec::<D>::OPERATOR, pad, problem.n * problem.c);
    Ok(problem.pad.as_ref().map(of).transpose()?)
}
