//! `instance_norm`: group norm with a group for each channel.
//!
//! The rows of an instance norm are the planes themselves, so the geometry with
//! `groups = channels` is all that it takes; kernels of its own would be the same kernels.

pub use crate::fused::group_norm_scale_pointwise::group_norm_scale_pointwise;
pub use crate::group_norm::group_norm_stats;
