//! Whole pipelines, each under several strategies.
//!
//! A model holds its parameters on a device. [`Pipeline::forward`] runs it on a tensor there;
//! [`plan`](Pipeline::plan) does once what does not depend on the input's values and leaves the launches.
//!
//! | model | KernelBench level 2 |
//! |---|---|
//! | [`Conv2dGroupNormScaleMaxPoolClamp`] | 85 |
//! | [`Conv3dMultiplyInstanceNormClampMultiplyMax`] | 79 |
//!
//! # Examples
//! ```
//! use convfuse::models::{Conv3dMultiplyInstanceNormClampMultiplyMax, Pipeline};
//! use convfuse::spec::Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec;
//! use convfuse::{Device, data};
//!
//! let stream = Device::best().stream()?;
//! let spec = Spec { out_channels: 5, ..Spec::kernelbench() };
//! let model = Conv3dMultiplyInstanceNormClampMultiplyMax::init(&stream, &spec, 7)?;
//! let y = model.forward_array(&data::fill(1, (2, 3, 6, 7, 8)))?;
//! assert_eq!(y.shape(), [2, 4, 5, 6]);
//! # Ok::<(), convfuse::Error>(())
//! ```

mod captured;
pub mod conv2d_group_norm_scale_max_pool_clamp;
pub mod conv3d_multiply_instance_norm_clamp_multiply_max;
mod parameters;
mod pipeline;
mod plan;
mod programs;

pub use captured::Captured;
pub use conv2d_group_norm_scale_max_pool_clamp::Conv2dGroupNormScaleMaxPoolClamp;
pub use conv3d_multiply_instance_norm_clamp_multiply_max::Conv3dMultiplyInstanceNormClampMultiplyMax;
pub use pipeline::{Options, Pipeline, Strategy};
pub use plan::Plan;

pub use crate::ops::Precision;
