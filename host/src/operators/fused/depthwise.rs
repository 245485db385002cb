//! A depthwise convolution on FMA units, with moments for a norm, or on channels-last tensors without a norm.

use super::convolved::{Convolved, Parameters};
use cuda_std::Label;
use kernels_gpu::fused::depthwise::nhwc::DEPTHWISE_NHWC;
use kernels_gpu::fused::depthwise::rolling::DEPTHWISE_NHWC_ROLLING;
use kernels_gpu::fused::depthwise::{DEPTHWISE, DEPTHWISE_LIST};
use op_spec::Layout;

use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::batch_norm_parameters::{FoldedInKernel, Statistics};
use crate::operators::conv::Filters;
use crate::program::{ProgramBuilder, Value};
use crate::spec::BatchNormProblem;
use launch_config::Presence;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcKernel;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::pointwise::OperandList;

/// Appends the convolution of `x`; its output has the shape `output`. Results are stored through the epilogue
/// and the list, which change nothing if a norm follows.
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
        return append_list(program, [x, y], parameters, geometry, store);
    }
    let Filters { weight, bias } = parameters.filters;
    let bytes_moved = program.bytes(&[x, y]) + parameters.filters.bytes(program);
    let moments = program.tensor(&[geometry.moment_elements() as usize], DType::F32)?;
    let (norm_weight, factors) = (parameters.norm.weight, parameters.factors);
    let bytes_moved = bytes_moved + program.bytes(&[moments]);
    let (label, shape) = ([dtype.label()], geometry.shape());
    let arguments = (x, weight, bias, norm_weight, factors, y, moments, *geometry);
    // SAFETY: `x` and the filters have the shapes that the geometry was made from; bias, norm weight and
    // scale, if present, have an element for each channel; `y` has an element for each output or window, and
    // `moments` has the geometry's size.
    unsafe { program.launch_moving(&DEPTHWISE, &label, shape, arguments, bytes_moved)? }
    Ok(Convolved { y, moments })
}

/// Appends the convolution of `x` to `y` with results stored through an epilogue and a list.
fn append_list(
    program: &mut ProgramBuilder,
    [x, y]: [Value; 2],
    parameters: &Parameters<'_>,
    geometry: &DepthwiseGeometry,
    (epilogue, list): (Epilogue, OperandList),
) -> Result<Convolved> {
    let (label, shape) = (program.label(x), geometry.shape());
    let Filters { weight, bias } = parameters.filters;
    let (gain, shift) = parameters.gains_and_shifts()[0];
    let residual = parameters.residual;
    let bytes_moved = program.bytes(&[x, y])
        + parameters.filters.bytes(program)
        + residual.map_or(0, |residual| program.bytes(&[residual]));
    let moments = program.tensor(&[0], DType::F32)?;
    let arguments = (
        x, weight, bias, gain, shift, residual, y, *geometry, epilogue, list,
    );
    // SAFETY: `x` and the filters have the shapes that the geometry was made from, which has no pool. Bias,
    // gain and shift, if present, have an element for each channel; the epilogue says whether the last two
    // are. The list says whether there is a residual, which has the shape and layout of `y`.
    unsafe { program.launch_moving(&DEPTHWISE_LIST, &label, shape, arguments, bytes_moved)? }
    Ok(Convolved { y, moments })
}

/// Appends the convolution of `x`, which is dense NHWC, to a dense NHWC output of the shape `output`, with
/// the batch norm or with the gain and the shift of `parameters`.
///
/// `kernel` was chosen for the shapes of `x` and of the parameters, and for the list.
pub(crate) fn append_nhwc(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    norm: Option<(Statistics, BatchNormProblem)>,
    kernel: &NhwcKernel,
    (epilogue, list): (Epilogue, OperandList),
    output: &[usize],
) -> Result<Value> {
    let order = Order::of_layout(output, Layout::Nhwc)?;
    let y = program.tensor_as(output, program.dtype(x), order)?;
    let Filters { weight, bias } = parameters.filters;
    let (gain, shift) = parameters.gains_and_shifts()[0];
    let norm = FoldedInKernel::of(program, norm)?;
    let epilogue = Epilogue {
        gain_and_shift: Presence::of(gain.is_some()),
        ..epilogue
    };
    let residual = parameters.residual;
    let bytes_moved = program.bytes(&[x, y])
        + parameters.filters.bytes(program)
        + residual.map_or(0, |residual| program.bytes(&[residual]));
    let [mean, variance, norm_weight, norm_bias] = norm.values;
    let label = program.dtype(x).label();
    macro_rules! append {
        ($family:expr, $labels:expr, $geometry:expr, $list:expr) => {{
            let shape = $geometry.shape();
            let arguments = (
                x,
                weight,
                bias,
                gain,
                shift,
                mean,
                variance,
                norm_weight,
                norm_bias,
                residual,
                y,
                $geometry,
                norm.geometry,
                norm.ty,
                norm.presence,
                epilogue,
                $list,
            );
            // SAFETY: `x`, the residual and `y` are dense NHWC and the filters dense, of the extents that the
            // geometry was made from. Bias, gain, shift and norm, if present, have an element for each
            // channel; the epilogue, the folding and the list say which are present.
            unsafe { program.launch_moving($family, $labels, shape, arguments, bytes_moved)? }
        }};
    }
    match *kernel {
        NhwcKernel::Rolling(geometry) => {
            // The kernel was chosen for a list that is a rounded epilogue.
            let rounded = RoundedEpilogue::of(&list).unwrap_or(RoundedEpilogue::NONE);
            let [r, stride] = [geometry.conv.r, geometry.conv.stride_h].map(Label::Number);
            append!(
                &DEPTHWISE_NHWC_ROLLING,
                &[r, stride, label],
                geometry,
                rounded
            );
        }
        NhwcKernel::Runs(geometry) => append!(&DEPTHWISE_NHWC, &[label], geometry, list),
    }
    Ok(y)
}
