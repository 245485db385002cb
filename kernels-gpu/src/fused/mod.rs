//! Kernels that do the work of several operators, named after them in order.
//!
//! Each kernel is the loop of the last operator around a map of the operators before it. It computes the
//! values of the separate kernels, without the tensors between them.

pub mod clamp_multiply_channel_reduction;
pub mod depthwise;
pub mod fold_scale;
#[cfg(hopper)]
pub mod gemm {
    //! Matrix products of windows and filters, from NHWC to NHWC.

    mod sm90;

    pub use sm90::*;
}
pub mod group_norm_scale_max_pool2d_clamp;
pub mod group_norm_scale_pointwise;
pub mod group_norm_scale_resident;
pub mod implicit_gemm;
pub mod instance_norm_clamp_multiply_channel_reduction;
pub mod max_pool2d_clamp;
pub mod scale_max_pool2d_clamp;
