//! A depthwise convolution on FMA units, with moments for a norm, or of channels-last tensors without one.

use super::convolved::{Convolved, Parameters};
use cuda_std::{Family, KernelArgs};
use kernels_gpu::fused::depthwise::nhwc::DEPTHWISE_NHWC;
use kernels_gpu::fused::depthwise::{DEPTHWISE, DEPTHWISE_LIST};
use op_spec::Layout;

use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::conv::Filters;
use crate::program::{Arguments, LaunchPlan, ProgramBuilder, Value};
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcGeometry;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

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
    store: (Epilogue, OperandList),
    output: &[usize],
) -> Result<Convolved> {
    let dtype = program.dtype(x);
    let y = program.tensor(output, dtype)?;
    if store != (Epilogue::NONE, OperandList::EMPTY) {
        // SAFETY: `x` and the filters have the shapes that the geometry was made from, which pools nothing.
        return unsafe {
            stored(
                program,
                &DEPTHWISE_LIST,
                [x, y],
                parameters,
                *geometry,
                store,
            )
        };
    }
    let Filters { weight, bias } = parameters.filters;
    let bytes_moved = program.bytes(&[x, y]) + parameters.filters.bytes(program);
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

/// Plans the convolution of a channels-last tensor.
pub(crate) fn plan_nhwc(
    plan: &mut LaunchPlan,
    dtype: DType,
    geometry: &NhwcGeometry,
) -> Result<()> {
    plan.launch(&DEPTHWISE_NHWC, &[dtype.label()], geometry.shape())
}

/// Appends the convolution of `x`, which is dense NHWC, to an output of that layout and the shape `output`.
///
/// `geometry` belongs to the shapes of `x` and of the parameters.
pub(crate) fn append_nhwc(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    geometry: &NhwcGeometry,
    store: (Epilogue, OperandList),
    output: &[usize],
) -> Result<Convolved> {
    let order = Order::of_layout(output, Layout::Nhwc)?;
    let y = program.tensor_as(output, program.dtype(x), order)?;
    // SAFETY: `x` and the filters have the shapes that the geometry was made from.
    unsafe {
        stored(
            program,
            &DEPTHWISE_NHWC,
            [x, y],
            parameters,
            *geometry,
            store,
        )
    }
}

/// What a kernel without a norm takes: input, filters, bias, gain, shift, residual, output, geometry,
/// epilogue and list.
type Stored<G> = (
    Value,
    Value,
    Option<Value>,
    Option<Value>,
    Option<Value>,
    Option<Value>,
    Value,
    G,
    Epilogue,
    OperandList,
);

/// Appends a convolution of `x` to `y` whose results are stored through the epilogue and the list.
///
/// # Safety
/// `x`, `y`, which has the layout of `x`, and the filters have the shapes that the geometry was made from.
unsafe fn stored<A: KernelArgs, G>(
    program: &mut ProgramBuilder,
    family: &Family<A>,
    [x, y]: [Value; 2],
    parameters: &Parameters<'_>,
    geometry: G,
    (epilogue, list): (Epilogue, OperandList),
) -> Result<Convolved>
where
    Stored<G>: Arguments<A>,
{
    let (kernel, shape) = program.next(family);
    let Filters { weight, bias } = parameters.filters;
    let (gain, shift) = parameters.gains_and_shifts()[0];
    let residual = parameters.residual;
    let bytes_moved = program.bytes(&[x, y])
        + parameters.filters.bytes(program)
        + residual.map_or(0, |residual| program.bytes(&[residual]));
    let moments = program.tensor(&[0], DType::F32)?;
    let arguments = (
        x, weight, bias, gain, shift, residual, y, geometry, epilogue, list,
    );
    // SAFETY: for input, filters and output the caller's to grant; bias, gain and shift have an element for
    // each channel where they exist, and the epilogue says whether the last two do; the list says whether
    // there is a residual, of the shape and layout of `y`.
    unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    Ok(Convolved { y, moments })
}
