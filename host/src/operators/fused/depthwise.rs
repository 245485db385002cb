//! A depthwise convolution on FMA units, with moments for a norm.

use super::convolved::{Convolved, Parameters};
use kernels_gpu::fused::depthwise::{DEPTHWISE, DEPTHWISE_LIST};

use crate::device::DType;
use crate::error::Result;
use crate::operators::conv::Filters;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::ResidualList;

/// Plans the convolution; `has_store` says whether an epilogue and a list are applied to its results.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    geometry: &DepthwiseGeometry,
    has_store: bool,
) -> Result<()> {
    let (labels, shape) = ([dtype.label()], geometry.shape());
    match has_store {
        true => plan.launch(&DEPTHWISE_LIST, &labels, shape),
        false => plan.launch(&DEPTHWISE, &labels, shape),
    }
}

/// Appends the convolution of `x`; its output has the shape `output`. Results are stored through the
/// epilogue and the list, which change nothing where a norm follows.
///
/// `geometry` belongs to the shapes of `x` and of the parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    geometry: &DepthwiseGeometry,
    (epilogue, list): (Epilogue, ResidualList),
    output: &[usize],
) -> Result<Convolved> {
    let dtype = program.dtype(x);
    let y = program.tensor(output, dtype)?;
    let Filters { weight, bias } = parameters.filters;
    let bytes_moved = program.bytes(&[x, y]) + parameters.filters.bytes(program);
    if epilogue != Epilogue::NONE || !list.is_empty() {
        let (kernel, shape) = program.next(&DEPTHWISE_LIST);
        let (gain, shift) = parameters.gain_and_shift();
        let residual = parameters.residual;
        let bytes_moved = bytes_moved + residual.map_or(0, |residual| program.bytes(&[residual]));
        let moments = program.tensor(&[0], DType::F32)?;
        let arguments = (
            x, weight, bias, gain, shift, residual, y, *geometry, epilogue, list,
        );
        // SAFETY: `x` and the filters have the shapes that the geometry was made from, which pools nothing;
        // bias, gain and shift have an element for each channel where they exist, and the epilogue says
        // whether the last two do; the list says whether there is a residual, of the shape of `y`.
        unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
        return Ok(Convolved { y, moments });
    }
    let (kernel, shape) = program.next(&DEPTHWISE);
    let moments = program.tensor(&[geometry.moment_elements() as usize], DType::F32)?;
    let (norm_weight, factors) = (parameters.norm.weight, parameters.factors);
    let bytes_moved = bytes_moved + program.bytes(&[moments]);
    let arguments = (x, weight, bias, norm_weight, factors, y, moments, *geometry);
    // SAFETY: `x` and the filters have the shapes that the geometry was made from; bias, norm weight and
    // scale have an element for each channel where they exist; `y` has an element for each output or window,
    // `moments` the geometry's size.
    unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    Ok(Convolved { y, moments })
}
