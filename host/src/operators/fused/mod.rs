//! Several operators in one or two kernels, without tensors between the operators.
//!
//! Each file is named after its operators in order, and appends launches that compute their composition.
//! Numerics, NaN behaviour and errors are those of the operators. Values are rounded in the same places,
//! unless the function's documentation says otherwise.

pub(crate) mod clamp_multiply_channel_reduction;
mod convolved;
pub(crate) mod depthwise;
mod fold_scale;
pub(crate) mod gemm;
pub(crate) mod group_norm_scale;
pub(crate) mod group_norm_scale_max_pool2d_clamp;
pub(crate) mod group_norm_scale_pointwise;
pub(crate) mod implicit_gemm;
pub(crate) mod max_pool2d_clamp;
pub(crate) mod multiply_instance_norm_clamp_multiply_channel_reduction;
pub(crate) mod norm_nhwc;
pub(crate) mod scale_max_pool2d_clamp;

pub(crate) use convolved::{Convolved, Parameters as ConvolutionParameters, RowMoments};
pub(crate) use fold_scale::fold_scale;
