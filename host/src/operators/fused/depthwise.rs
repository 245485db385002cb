//! A depthwise convolution on FMA units, with moments for a norm.

use super::convolved::{Convolved, Parameters};
use kernels_gpu::fused::depthwise::DEPTHWISE;

use crate::device::DType;
use crate::error::Result;
use crate::operators::conv::Filters;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use launch_config::depthwise::DepthwiseGeometry;

/// Plans the convolution.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    geometry: &DepthwiseGeometry,
) -> Result<()> {
    plan.launch(&DEPTHWISE, &[dtype.label()], geometry.shape())
}

/// Appends the convolution of `x`; its output has the shape `output`.
///
/// `geometry` belongs to the shapes of `x` and of the parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    geometry: &DepthwiseGeometry,
    output: &[usize],
) -> Result<Convolved> {
    let dtype = program.dtype(x);
    let (kernel, shape) = program.next(&DEPTHWISE);
    let y = program.tensor(output, dtype)?;
    let moments = program.tensor(&[geometry.moment_elements() as usize], DType::F32)?;
    let Filters { weight, bias } = parameters.filters;
    let (gain, factors) = (parameters.norm.weight, parameters.factors);
    let bytes_moved = program.bytes(&[x, y, moments]) + parameters.filters.bytes(program);
    let arguments = (x, weight, bias, gain, factors, y, moments, *geometry);
    // SAFETY: `x` and the filters have the shapes that the geometry was made from; bias, norm weight and
    // scale have an element for each channel where they exist; `y` has an element for each output or window,
    // `moments` the geometry's size.
    unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    Ok(Convolved { y, moments })
}
