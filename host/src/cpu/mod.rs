//! The CPU backend: f32 in and out, with the signatures of [`reference`](crate::reference).
//!
//! Convolutions are matrix products: the windows of an image become the columns of a matrix
//! (im2col), a cache-sized part at a time, and ndarray's `dot` multiplies the filters with it.
//! Statistics of norms are float64, which a mean a thousand times the deviation does not disturb.
//! The pipelines work sample by sample, so that what follows the convolution finds its output
//! in the cache.
//!
//! Work is spread over rayon's threads. How it is cut depends on the problem alone, never on the
//! number of threads or the batch, so results repeat bit for bit.

mod channel_max;
mod clamp;
mod conv;
mod conv2d_group_norm_scale_max_pool_clamp;
mod conv3d_multiply_instance_norm_clamp_multiply_max;
mod group_norm;
mod instance_norm;
mod max_pool2d;
mod moments;
mod scale;

use ndarray::ArrayD;
use op_spec::SpecError;

use crate::verify::Operation;

pub use channel_max::channel_max;
pub use clamp::clamp;
pub use conv::{conv2d, conv3d};
pub use conv2d_group_norm_scale_max_pool_clamp::conv2d_group_norm_scale_max_pool_clamp;
pub use conv3d_multiply_instance_norm_clamp_multiply_max::conv3d_multiply_instance_norm_clamp_multiply_max;
pub use group_norm::group_norm;
pub use instance_norm::instance_norm;
pub use max_pool2d::max_pool2d;
pub use scale::scale;

/// Runs any operation, as verification does.
///
/// # Errors
/// What the operation's specification refuses.
pub fn run(operation: &Operation) -> Result<ArrayD<f32>, SpecError> {
    macro_rules! view {
        ($option:expr) => {
            $option.as_ref().map(|array| array.view())
        };
    }
    Ok(match operation {
        Operation::Conv2d {
            x,
            weight,
            bias,
            spec,
        } => conv2d(x.view(), weight.view(), view!(bias), spec)?.into_dyn(),
        Operation::Conv3d {
            x,
            weight,
            bias,
            spec,
        } => conv3d(x.view(), weight.view(), view!(bias), spec)?.into_dyn(),
        Operation::GroupNorm {
            x,
            weight,
            bias,
            spec,
        } => group_norm(x.view(), view!(weight), view!(bias), spec)?,
        Operation::InstanceNorm {
            x,
            weight,
            bias,
            spec,
        } => instance_norm(x.view(), view!(weight), view!(bias), spec)?,
        Operation::Scale { x, scale: factors } => scale(x.view(), factors.view())?,
        Operation::MaxPool2d { x, spec } => max_pool2d(x.view(), spec)?.into_dyn(),
        Operation::Clamp { x, spec } => clamp(x.view(), spec)?,
        Operation::ChannelMax { x } => channel_max(x.view())?,
        Operation::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec } => {
            conv2d_group_norm_scale_max_pool_clamp(x.view(), weights, spec)?.into_dyn()
        }
        Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec } => {
            conv3d_multiply_instance_norm_clamp_multiply_max(x.view(), weights, spec)?.into_dyn()
        }
    })
}

/// The larger number, NaN if either is one. The form matters: it becomes one vector comparison and
/// a selection, where `f32::max` would drop NaN.
#[inline(always)]
fn max_keeping_nan(best: f32, v: f32) -> f32 {
    if v > best || v.is_nan() { v } else { best }
}
