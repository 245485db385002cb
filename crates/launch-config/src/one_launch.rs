//! Launch configurations of the kernels that compute a whole KernelBench pipeline in one launch, each for one
//! geometry.

pub mod conv2d_group_norm_scale_max_pool_clamp;
pub mod conv3d_multiply_instance_norm_clamp_multiply_max;
