//! A convolution of one tap from NHWC to NHWC as a plain matrix product.

use kernels_gpu::fused::gemm::{GEMM_SM90, boxes_of_filters, boxes_of_input, boxes_of_output};
use launch_config::Presence;
use launch_config::gemm::Gemm;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};

use super::convolved::Parameters;
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::batch_norm::{FoldedInKernel, Statistics};
use crate::program::{BoxesOf, LaunchPlan, ProgramBuilder, Value};
use crate::spec::BatchNormProblem;
use launch_config::pointwise::{OperandList, PointwiseList};
use op_spec::Layout;

/// Plans the launch.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, gemm: &Gemm) -> Result<()> {
    let labels = [gemm.tile.label.into(), dtype.label()];
    plan.launch(&GEMM_SM90, &labels, Some(gemm.shape))
}

/// Whether the kernel applies a list.
pub(crate) fn applies(list: &OperandList) -> bool {
    let is_plain = !(list.has_residual() || list.is_affine());
    RoundedEpilogue::of(list).is_some() || is_plain && !list.functions.keeps().is_present()
}

/// Appends the launch, which gives a tensor of shape `output`: the convolution of `x`, which is dense NHWC,
/// with the batch norm or with the gain and the shift of `parameters`, and with the epilogue.
///
/// `gemm` was chosen for the shapes of `x` and of the parameters, and for the program's device.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    parameters: &Parameters<'_>,
    norm: Option<(Statistics, BatchNormProblem)>,
    gemm: &Gemm,
    (epilogue, list): (Epilogue, OperandList),
    output: &[usize],
) -> Result<Value> {
    let order = Order::of_layout(output, Layout::Nhwc)?;
    let y = program.tensor_as(output, program.dtype(x), order)?;
    let filters = parameters.filters;
    let [(gain, shift), _] = parameters.gains_and_shifts();
    let norm = FoldedInKernel::of(program, norm)?;
    let epilogue = Epilogue {
        gain_and_shift: Presence::of(gain.is_some()),
        ..epilogue
    };
    let residual = parameters.residual;
    let (rounded, list) = match RoundedEpilogue::of(&list) {
        Some(rounded) => (rounded, PointwiseList::EMPTY),
        None => (RoundedEpilogue::NONE, list.functions),
    };
    let read: Vec<Value> = [x, filters.weight].into_iter().chain(residual).collect();
    let bytes_moved = program.bytes(&read) + program.bytes(&[y]);
    let [running_mean, running_var, norm_weight, norm_bias] = norm.values;
    let (kernel, shape) = program.next(&GEMM_SM90);
    let arguments = (
        Some(BoxesOf::read(x, boxes_of_input(gemm))),
        Some(BoxesOf::read(filters.weight, boxes_of_filters(gemm))),
        residual.map(|residual| BoxesOf::read(residual, boxes_of_output(gemm))),
        Some(BoxesOf::written(y, boxes_of_output(gemm))),
        filters.bias,
        gain,
        shift,
        running_mean,
        running_var,
        norm_weight,
        norm_bias,
        gemm.geometry,
        norm.geometry,
        norm.ty,
        norm.presence,
        epilogue,
        rounded,
        list,
    );
    // SAFETY: `x`, the residual and `y` are dense NHWC and the filters dense, of the extents that `gemm` was
    // chosen for; what exists of bias, gain, shift and the norm has an element for each filter.
    unsafe { program.launch_moving(kernel, shape, arguments, bytes_moved) }
    Ok(y)
}
