//! Kernels that do the work of several operators, named after them in order.
//!
//! Each is a loop of the operator that ends it around a map of those before it, so what it computes
//! is what the separate kernels compute, less the tensors between them.

pub mod clamp_multiply_channel_reduction;
pub mod depthwise;
pub mod fold_scale;
#[cfg(hopper)]
pub mod gemm;
pub mod group_norm_scale_max_pool2d_clamp;
pub mod group_norm_scale_pointwise;
pub mod group_norm_scale_resident;
pub mod implicit_gemm;
pub mod instance_norm_clamp_multiply_channel_reduction;
pub mod max_pool2d_clamp;
pub mod scale_max_pool2d_clamp;
