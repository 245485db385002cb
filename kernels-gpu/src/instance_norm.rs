//! `instance_norm`: group norm with a group for each channel.
//!
//! The rows of an instance norm are the planes themselves. It uses the kernels of group norm, with the
//! geometry of `groups = channels`.

pub use crate::fused::group_norm_scale_pointwise::group_norm_scale_pointwise;
pub use crate::group_norm::group_norm_stats;
