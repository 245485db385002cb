//! The kernels of the convolution of a class of phases.

use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcKernel;
use launch_config::gemm::Gemm;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;
use op_spec::Layout;

use super::NO_STORE;
use crate::device::DType;
use crate::operators::fused::gemm;
use crate::operators::implicit_gemm::ImplicitGemm;

/// The kernels of a class's convolution.
#[derive(Debug)]
pub(crate) enum ClassKernels {
    /// A matrix product from NHWC to NHWC.
    Gemm(Gemm),
    ImplicitGemm(ImplicitGemm),
    Depthwise(DepthwiseGeometry),
    /// A depthwise convolution of channels-last tensors.
    DepthwiseNhwc(NhwcKernel),
    Direct,
}

impl ClassKernels {
    /// The layouts of input and output.
    pub(super) fn layouts(&self) -> [Layout; 2] {
        match self {
            Self::ImplicitGemm(gemm) => [gemm.reads(), gemm.writes()],
            Self::Gemm(_) | Self::DepthwiseNhwc(_) => [Layout::Nhwc; 2],
            Self::Depthwise(_) | Self::Direct => [Layout::Nchw; 2],
        }
    }

    /// Whether the kernels can store results of a type through this epilogue and this list.
    pub(super) fn can_store(&self, store: &(Epilogue, OperandList), dtype: DType) -> bool {
        let (_, list) = store;
        match self {
            Self::Gemm(_) => gemm::applies(list),
            Self::ImplicitGemm(gemm) => gemm.can_store(list, dtype),
            Self::Depthwise(_) => !list.is_affine(),
            Self::DepthwiseNhwc(kernel) => kernel.takes(list),
            Self::Direct => *store == NO_STORE,
        }
    }
}
