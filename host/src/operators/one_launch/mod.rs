//! Whole pipelines of KernelBench in one launch, each for one geometry.
//!
//! Numerics, NaN behaviour and errors are those of the operators, except that the convolution's output is not
//! rounded in front of the norm: in f16 it does not overflow. These kernels are separate from the general
//! path.

pub(crate) mod conv2d_group_norm_scale_max_pool_clamp;
pub(crate) mod conv3d_multiply_instance_norm_clamp_multiply_max;
