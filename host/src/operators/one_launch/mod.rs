//! Whole pipelines of KernelBench in one launch, for one geometry each.
//!
//! Numerics, NaN behaviour and errors are those of the operators. The general path does not use these
//! kernels.

pub(crate) mod conv2d_group_norm_scale_max_pool_clamp;
pub(crate) mod conv3d_multiply_instance_norm_clamp_multiply_max;
