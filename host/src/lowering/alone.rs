//! Convolutions alone as implicit GEMMs.

use launch_config::Refusal;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::GemmConfig;
use op_spec::Layout;

use super::region::Region;
use crate::operators::implicit_gemm::Gemm;

/// An implicit GEMM without a norm, of an input that has these strides if it is not dense NCHW, which writes
/// `output` where it can.
pub(super) fn gemm_alone(
    region: &Region<'_>,
    conv: &ConvGeometry,
    strides: Option<[i64; 5]>,
    output: Layout,
) -> Result<Gemm, Refusal> {
    let (dtype, properties) = (region.of.dtype, region.of.properties);
    let options = region.of.options.fused();
    let in_nhwc = match output {
        Layout::Nhwc => Gemm::in_nhwc(conv, dtype, properties, options, strides).ok(),
        Layout::Nchw => None,
    };
    match in_nhwc {
        Some(gemm) => Ok(gemm),
        None => Gemm::without_norm(conv, dtype, properties, options, strides, output),
    }
}

/// Whether an implicit GEMM has enough products for the layout of its input.
pub(super) fn pays_for_layout(gemm: &Gemm) -> bool {
    gemm.is_one_sample() || GemmConfig::pays(gemm.conv())
}
