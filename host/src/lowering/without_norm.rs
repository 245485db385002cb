//! Convolutions without a norm: as implicit GEMMs, as matrix products, and with few filters.

use launch_config::Refusal;
use launch_config::conv::ConvGeometry;
use launch_config::conv_nhwc::ConvNhwcGeometry;
use launch_config::depthwise::nhwc::NhwcKernel;
use launch_config::gemm::{FilterOrder, Gemm};
use launch_config::implicit_gemm::GemmConfig;
use launch_config::pointwise::OperandList;
use op_spec::Layout;

use super::epilogue::{EpilogueKernels, channels_last_launches};
use super::region::{Query, Region};
use crate::device::DType;
use crate::operators::Precision;
use crate::operators::implicit_gemm::{ImplicitGemm, gemm_device};

/// Returns an implicit GEMM without a norm. `strides` are the strides of an input that is not dense NCHW. The
/// GEMM writes `output` if it can.
pub(super) fn gemm_without_norm(
    region: &Region<'_>,
    conv: &ConvGeometry,
    strides: Option<[i64; 5]>,
    output: Layout,
) -> Result<ImplicitGemm, Refusal> {
    let (dtype, properties) = (region.of.dtype, region.of.properties);
    let options = region.of.options.fused();
    let in_nhwc = match output {
        Layout::Nhwc => ImplicitGemm::in_nhwc(conv, dtype, properties, options, strides).ok(),
        Layout::Nchw => None,
    };
    match in_nhwc {
        Some(gemm) => Ok(gemm),
        None => ImplicitGemm::without_norm(conv, dtype, properties, options, strides, output),
    }
}

/// Whether an implicit GEMM has enough multiply-adds to pay for its input's layout; otherwise the reason.
pub(super) fn implicit_pays(gemm: &ImplicitGemm) -> Result<(), &'static str> {
    match gemm.is_one_sample() || GemmConfig::pays(gemm.conv()) {
        true => Ok(()),
        false => Err("too few products for each value of the input to pay for its layout"),
    }
}

/// Whether a matrix product is faster than an implicit GEMM; otherwise the reason.
pub(super) fn gemm_pays(gemm: &Gemm) -> Result<(), &'static str> {
    if gemm.is_half_empty() {
        Err("at most 32 filters of several taps, which leave half of a tile empty")
    } else if pads_one_tap(gemm) {
        Err("one tap of channels that a launch would pad first")
    } else {
        Ok(())
    }
}

/// The conditions of a matrix product.
const PRODUCT: Refusal = Refusal::Needs("16 bits or fast f32, dense NHWC, and warpgroup MMA");

/// Returns a convolution as a matrix product from NHWC to NHWC, possibly with a residual and a list.
pub(super) fn matrix_product(
    region: &Region<'_>,
    conv: &ConvGeometry,
    reads: (bool, bool),
) -> Result<Gemm, Refusal> {
    if !region.may_be_nhwc() {
        return Err(PRODUCT);
    }
    matrix_product_of(region.of, region.layers[0], conv, reads)
}

/// Returns the convolution `layer` as a matrix product, if its input and output are dense NHWC. f32 is
/// rounded to tf32.
pub(super) fn matrix_product_of(
    of: Query<'_>,
    layer: usize,
    conv: &ConvGeometry,
    reads: (bool, bool),
) -> Result<Gemm, Refusal> {
    let is_exact = of.dtype == DType::F32 && of.options.precision == Precision::Accurate;
    let properties = of.properties;
    let arch = properties.arch;
    let has_instructions = arch.has_warpgroup_mma() && arch.has_tensor_maps();
    if is_exact || !has_instructions || of.has_explicit_padding(layer) {
        return Err(PRODUCT);
    }
    Gemm::new(
        (conv, of.dtype.size() as u32),
        reads,
        &gemm_device(properties),
    )
}

/// Returns the kernel of the convolution `layer` from NHWC to NHWC with few filters.
pub(super) fn few_filters(
    region: &Region<'_>,
    conv: &ConvGeometry,
    layer: usize,
) -> Result<ConvNhwcGeometry, Refusal> {
    let of = region.of;
    let is_padded = of.has_explicit_padding(region.layers[0]);
    if !region.may_be_nhwc() || of.dtype == DType::F32 || is_padded {
        return Err(Refusal::Needs("16 bits and dense NHWC"));
    }
    ConvNhwcGeometry::new(conv, region.is_given_in_nhwc(layer))
}

/// Whether the GEMM has one tap, and a launch pads its channels.
pub(super) fn pads_one_tap(gemm: &Gemm) -> bool {
    gemm.few_channels.is_some() && gemm.filters == FilterOrder::OneTap
}

/// Whether the norm of `epilogue`, and a max_pool2d behind it, have kernels of their own from NHWC to NHWC,
/// and no partition asks for the region. Producers and pools that take a norm write NCHW.
pub(super) fn is_apart_in_nhwc(region: &Region<'_>, epilogue: &EpilogueKernels) -> bool {
    let lies_so = region.is_dense_nhwc() && region.output == Layout::Nhwc;
    let has_kernels = match epilogue {
        EpilogueKernels::Map(map) => channels_last_launches(map).is_some(),
        EpilogueKernels::Pool(pool) => pool.is_apart_in_nhwc(),
        _ => false,
    };
    lies_so && has_kernels && !region.is_given()
}

/// Whether a convolution and `epilogue`, which begins with a norm, are faster as separate launches: a matrix
/// product or, in 16 bits, an implicit GEMM, then a norm, both in NHWC. Producers with moments write NCHW.
pub(super) fn norm_pays_apart(
    region: &Region<'_>,
    conv: &ConvGeometry,
    epilogue: &EpilogueKernels,
) -> bool {
    if !is_apart_in_nhwc(region, epilogue) {
        return false;
    }
    let product = matrix_product(region, conv, (false, false));
    product.is_ok_and(|gemm| gemm_pays(&gemm).is_ok())
        || region.of.dtype != DType::F32
            && gemm_without_norm(region, conv, region.strides(), Layout::Nhwc)
                .is_ok_and(|gemm| gemm.writes() == Layout::Nhwc && implicit_pays(&gemm).is_ok())
}

/// Whether a depthwise convolution and `epilogue`, which begins with a norm, are faster as separate launches,
/// both in NHWC.
pub(super) fn depthwise_norm_pays_apart(
    region: &Region<'_>,
    conv: &ConvGeometry,
    epilogue: &EpilogueKernels,
) -> bool {
    let of = region.of;
    let multiprocessors = of.properties.multiprocessors;
    is_apart_in_nhwc(region, epilogue)
        && !of.has_explicit_padding(region.layers[0])
        && NhwcKernel::new(conv, &OperandList::EMPTY, multiprocessors).is_ok()
}
