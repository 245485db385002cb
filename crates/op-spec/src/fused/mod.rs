//! Pipelines of several operators: the attributes of all, and every intermediate shape.

use crate::SpecError;
use crate::error::Quantity;

mod conv2d_group_norm_scale_max_pool_clamp;
mod conv3d_multiply_instance_norm_clamp_multiply_max;

pub use conv2d_group_norm_scale_max_pool_clamp::{
    Conv2dGroupNormScaleMaxPoolClampProblem, Conv2dGroupNormScaleMaxPoolClampSpec,
};
pub use conv3d_multiply_instance_norm_clamp_multiply_max::{
    Conv3dMultiplyInstanceNormClampMultiplyMaxProblem,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
};

/// The model's own channel count, which its filter follows, against the input's. Ranks are the
/// convolution's to check.
fn check_in_channels(
    operator: &'static str,
    input: &[usize],
    in_channels: usize,
) -> Result<(), SpecError> {
    match input.get(1) {
        Some(&channels) if channels != in_channels => Err(SpecError::Mismatch {
            operator,
            quantity: Quantity::entry("input", 1),
            actual: channels,
            expected: in_channels,
        }),
        _ => Ok(()),
    }
}
