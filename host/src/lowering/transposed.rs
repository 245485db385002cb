//! The kernels of transposed convolutions.

use launch_config::conv_transpose::ShuffledClass;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcKernel;
use launch_config::implicit_gemm::{Epilogue as StoreEpilogue, RoundedEpilogue};
use launch_config::pointwise::OperandList;
use launch_config::{KernelGeometry, Refusal};
use op_spec::{ConvProblem, ConvTransposeProblem, Layout};

use super::producer::conv_geometry;
use super::reduced::LIST;
use super::region::Region;
use super::without_norm::{gemm_pays, gemm_without_norm, implicit_pays, matrix_product};
use crate::device::DType;
use crate::operators::conv_transpose::{ClassKernels, Transposed};
use crate::operators::implicit_gemm::ImplicitGemm;

/// Returns the kernels of a transposed convolution. The convolution of each class runs by depthwise kernels
/// where it is depthwise, else by a matrix product from NHWC to NHWC, else by an implicit GEMM where that
/// pays, else by direct kernels; rows of the table are not asked. All classes read one layout and write one
/// layout. The region is refused unless convolutions that write the output can apply `store`. The bits are
/// those of separate launches, except for exponentials in fast f32, so a matrix product takes no list that it
/// would not round.
pub(super) fn transposed(
    region: &Region<'_>,
    problem: &ConvTransposeProblem<3>,
    store: (StoreEpilogue, OperandList),
) -> Result<Transposed, Refusal> {
    let (strides, output) = (region.strides(), region.output);
    // Interleaved results go through the list later.
    let is_convolution = (problem.geometry()).is_ok_and(|of| of.is_convolution().is_some());
    let list = match is_convolution {
        true => store.1,
        false => OperandList::EMPTY,
    };
    let in_place = strides.is_some();
    if output == Layout::Nchw
        && let Some(transposed) = [strides, None]
            .into_iter()
            .take(1 + usize::from(in_place))
            .find_map(|strides| shuffled(region, problem, store, strides))
    {
        return stored(transposed, region);
    }
    let mut candidates = vec![
        (strides, output),
        (strides, Layout::Nchw),
        (None, output),
        (None, Layout::Nchw),
    ];
    candidates.dedup();
    for (strides, output) in candidates {
        let choose = |conv: &ConvProblem<3>, is_reformatted: &dyn Fn(&ImplicitGemm) -> bool| {
            class_kernels(region, conv, is_reformatted, (strides, output), &list)
        };
        if let Some(transposed) = Transposed::new(problem, store, choose)? {
            return stored(transposed, region);
        }
    }
    Err(Refusal::Needs("kernels of one layout for all phases"))
}

/// Returns the kernels if they can apply the store.
fn stored(transposed: Transposed, region: &Region<'_>) -> Result<Transposed, Refusal> {
    match transposed.can_store(region.of.dtype) {
        true => Ok(transposed),
        false => Err(LIST),
    }
}

/// Returns implicit GEMMs that shuffle their results into the output, if that is possible. `strides` are the
/// strides of an input that is not dense NCHW.
fn shuffled(
    region: &Region<'_>,
    problem: &ConvTransposeProblem<3>,
    store: (StoreEpilogue, OperandList),
    strides: Option<[i64; 5]>,
) -> Option<Transposed> {
    let (dtype, properties) = (region.of.dtype, region.of.properties);
    let options = region.of.options.fused();
    let choose = |class: &ShuffledClass| {
        let conv = conv_geometry(&class.convolution).ok()?;
        DepthwiseGeometry::check(&conv).is_err().then_some(())?;
        ImplicitGemm::shuffled(&conv, class.shuffle, dtype, properties, options, strides).ok()
    };
    Transposed::shuffled(problem, store, choose)
}

/// Returns the kernels of one class's convolution, whose results go through `list`. `strides` are the strides
/// of an input that is not dense NCHW. If the input is already reformatted, an implicit GEMM need not pay for
/// it.
fn class_kernels(
    region: &Region<'_>,
    conv: &ConvProblem<3>,
    is_reformatted: &dyn Fn(&ImplicitGemm) -> bool,
    (strides, output): (Option<[i64; 5]>, Layout),
    list: &OperandList,
) -> Result<ClassKernels, Refusal> {
    let conv = conv_geometry(conv)?;
    if let Ok(depthwise) = DepthwiseGeometry::new(&conv, None) {
        let multiprocessors = region.of.properties.multiprocessors;
        return Ok(match NhwcKernel::new(&conv, list, multiprocessors) {
            Ok(kernel) if strides.is_some() && region.is_dense_nhwc() => {
                ClassKernels::DepthwiseNhwc(kernel)
            }
            _ => ClassKernels::Depthwise(depthwise),
        });
    }
    // In f32 there is nothing to round.
    let has_list = RoundedEpilogue::of(list).is_none();
    if output == Layout::Nhwc
        && (!has_list || region.of.dtype == DType::F32)
        && let Ok(gemm) = matrix_product(region, &conv, (list.has_residual(), has_list))
        && gemm_pays(&gemm).is_ok()
    {
        return Ok(ClassKernels::Gemm(gemm));
    }
    let gemm = gemm_without_norm(region, &conv, strides, output).ok();
    let gemm = gemm.filter(|gemm| is_reformatted(gemm) || implicit_pays(gemm).is_ok());
    Ok(gemm.map_or(ClassKernels::Direct, ClassKernels::ImplicitGemm))
}
