//! Producers, which compute the values of a region before its epilogue.

use launch_config::KernelGeometry;
use std::fmt;

use crate::graph::LayerProblem;
use crate::operators::conv::ConvMean;
use crate::operators::conv_transpose::Transposed;
use crate::operators::implicit_gemm::ImplicitGemm;
use crate::operators::one_launch::conv2d_group_norm_scale_max_pool_clamp::OneLaunch2d;
use crate::operators::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::OneLaunch3d;
use crate::operators::{OwnKernels, own_kernels};
use crate::spec::{ConvProblem, GroupNormProblem};
use launch_config::Refusal;
use launch_config::conv::ConvGeometry;
use launch_config::conv_nhwc::{BLOCK_PIXELS, ConvNhwcGeometry};
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::NhwcKernel;
use launch_config::gemm::{FilterOrder, Gemm};
use launch_config::norm::NormGeometry;
use op_spec::Layout;

/// The producer of a region's values.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a program has few of them, for as long as it is made"
)]
pub(super) enum Producer {
    /// One kernel for the whole region, as in problem 85.
    OneLaunch2d(OneLaunch2d),
    /// One kernel for the whole region, as in problem 79.
    OneLaunch3d(OneLaunch3d),
    /// A convolution from NHWC to NHWC as a matrix product of its windows on tensor cores.
    Gemm(Gemm),
    /// A convolution as an implicit GEMM on tensor cores.
    ImplicitGemm(ImplicitGemm),
    /// A depthwise convolution on FMA units.
    Depthwise(DepthwiseGeometry),
    /// A depthwise convolution of a channels-last tensor.
    DepthwiseNhwc(NhwcKernel),
    /// A convolution of a channels-last tensor with few filters, on FMA units.
    DirectNhwc(ConvNhwcGeometry),
    /// A convolution with the kernels of its operator, on FMA units.
    Direct(LayerProblem),
    /// The mean of a convolution's results, without the convolution.
    ConvMean(ConvMean),
    /// A transposed convolution, as convolutions of its phases.
    Transposed(Transposed),
    /// The region's input, or its only layer with the kernels of its operator.
    Tensor,
}

impl Producer {
    /// The layouts that a convolution reads and writes. `None` for a tensor, whose layouts are the
    /// epilogue's.
    pub(super) fn layouts(&self) -> Option<[Layout; 2]> {
        match self {
            Producer::ImplicitGemm(gemm) => Some([gemm.reads(), gemm.writes()]),
            Producer::DepthwiseNhwc(_) | Producer::Gemm(_) | Producer::DirectNhwc(_) => {
                Some([Layout::Nhwc; 2])
            }
            Producer::Transposed(transposed) => Some([transposed.reads, transposed.writes]),
            Producer::OneLaunch2d(_)
            | Producer::OneLaunch3d(_)
            | Producer::Depthwise(_)
            | Producer::ConvMean(_)
            | Producer::Direct(_) => Some([Layout::Nchw; 2]),
            Producer::Tensor => None,
        }
    }

    /// The number of moments that the producer writes for a norm's row with this number of channels; `None`
    /// if it writes no moments.
    pub(super) fn moments_of_row(&self, row_channels: u32) -> Option<u64> {
        match self {
            Producer::ImplicitGemm(gemm) => Some(gemm.moments_of_row(row_channels)),
            Producer::Depthwise(geometry) => Some((row_channels * geometry.plane_blocks).into()),
            Producer::OneLaunch2d(_)
            | Producer::OneLaunch3d(_)
            | Producer::Gemm(_)
            | Producer::DepthwiseNhwc(_)
            | Producer::DirectNhwc(_)
            | Producer::Direct(_)
            | Producer::ConvMean(_)
            | Producer::Transposed(_)
            | Producer::Tensor => None,
        }
    }

    /// Whether the producer reads filters in place if they are passed to each run.
    pub(super) fn reads_filters_in_place(&self) -> bool {
        match self {
            Producer::ImplicitGemm(gemm) => gemm.has_filters_in_place(),
            Producer::Gemm(gemm) => gemm.filters == FilterOrder::ChannelsLast,
            Producer::DirectNhwc(geometry) => geometry.filters_are_last(),
            Producer::OneLaunch2d(_)
            | Producer::OneLaunch3d(_)
            | Producer::Depthwise(_)
            | Producer::DepthwiseNhwc(_)
            | Producer::Direct(_)
            | Producer::ConvMean(_)
            | Producer::Transposed(_)
            | Producer::Tensor => false,
        }
    }
}

/// Formats the configuration; empty for a producer without a choice.
impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Producer::Gemm(gemm) => gemm.fmt(f),
            Producer::ImplicitGemm(gemm) => gemm.fmt(f),
            Producer::Depthwise(geometry) => {
                write!(f, "{} blocks for each plane", geometry.plane_blocks)
            }
            Producer::DepthwiseNhwc(kernel) => kernel.fmt(f),
            Producer::Transposed(transposed) => transposed.fmt(f),
            Producer::OneLaunch2d(launch) => launch.fmt(f),
            Producer::OneLaunch3d(launch) => launch.fmt(f),
            Producer::DirectNhwc(geometry) => {
                let filters = geometry.conv.group_k;
                write!(
                    f,
                    "{filters} filters in shared memory, {BLOCK_PIXELS} pixels a block"
                )
            }
            Producer::Direct(layer) => match own_kernels(layer).and_then(OwnKernels::direct_tile) {
                Some(tile) => write!(f, "tile of {} filters", tile.channels()),
                None => Ok(()),
            },
            Producer::ConvMean(of) => write!(f, "{} taps", of.sums.all_taps()),
            Producer::Tensor => Ok(()),
        }
    }
}

/// The geometry of a convolution.
///
/// # Errors
/// Extents that no kernel can index.
pub(super) fn conv_geometry(problem: &ConvProblem<3>) -> Result<ConvGeometry, Refusal> {
    let geometry = problem.geometry();
    geometry.map_err(|_| Refusal::Needs("planes and filters that are indexed with 32 bits"))
}

/// The geometry of a norm.
///
/// # Errors
/// Extents that no kernel can index.
pub(super) fn norm_geometry(norm: &GroupNormProblem) -> Result<NormGeometry, Refusal> {
    let geometry = norm.geometry();
    geometry.map_err(|_| Refusal::Needs("groups that are indexed with 32 bits"))
}
