//! Kernels that compute a whole pipeline of KernelBench in one launch, for one geometry each. The general
//! path does not use them.

// These kernels need Hopper's `wgmma` and clusters.
#[cfg(hopper)]
pub mod conv2d_group_norm_scale_max_pool_clamp;
pub mod conv3d_multiply_instance_norm_clamp_multiply_max;
