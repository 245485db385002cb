//! The judge: every operator in float64, in loops that can be read against its definition.
//!
//! Nothing here is fast on purpose, yet a full-size pipeline takes seconds: the innermost loops run
//! over consecutive elements, and samples are spread over the cores. The references of the
//! pipelines are the compositions of the operators' references, one sample at a time, so that no
//! intermediate tensor is ever whole.
//!
//! NaN follows PyTorch throughout: maxima and clamps keep it.

mod channel_max;
mod clamp;
mod conv;
mod conv2d_group_norm_scale_max_pool_clamp;
mod conv3d_multiply_instance_norm_clamp_multiply_max;
mod group_norm;
mod instance_norm;
mod max_pool2d;
mod scale;

pub use channel_max::channel_max;
pub use clamp::clamp;
pub use conv::{conv2d, conv3d};
pub use conv2d_group_norm_scale_max_pool_clamp::conv2d_group_norm_scale_max_pool_clamp;
pub use conv3d_multiply_instance_norm_clamp_multiply_max::conv3d_multiply_instance_norm_clamp_multiply_max;
pub use group_norm::group_norm;
pub(crate) use group_norm::normalize;
pub use instance_norm::instance_norm;
pub use max_pool2d::max_pool2d;
pub use scale::scale;

#[cfg(test)]
mod tests;
