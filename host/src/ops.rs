//! Operators on tensors that compute the same functions as PyTorch's.
//!
//! Each operator first checks shapes and attributes (through [`spec`](crate::spec)). It then allocates its
//! output and queues its kernels on the stream of its input; the host does not wait. If a parameter belongs
//! to another stream of the device, the device waits for it. Parameters on other devices, or of another
//! element type than the input, are refused.
//!
//! Tensors may have any strides. A tensor that is not dense, row-major and aligned to 16 bytes is copied
//! first by one kernel. Results are dense, and their bits do not depend on the strides.
//!
//! Each operator has an internal function that appends its launches to a program. Models compose their
//! programs from these; a function of this module runs a program of one operator once.
//!
//! Elements may be `f32`, `f16` or `bf16`: storage differs, arithmetic is f32 in all cases. On the CPU
//! device the same functions run the ndarray backend.
//!
//! # Numerics
//!
//! `|got - want| <= (4 + sqrt(L)) * eps * cond` against exact arithmetic. `eps` is 2^-24 for f32; a 16-bit
//! storage type adds one rounding. `L` is the longest chain of additions into one number. `cond` is the
//! operator's own condition:
//!
//! - a convolution: the sum of magnitudes;
//! - an average pool: the average of magnitudes;
//! - a norm by statistics of its input: `rstd * |weight| * (|x| + mean|x|) + |y| + |bias|`;
//! - a batch norm: `|gain * x| + |shift|`.
//!
//! Maxima and clamps are exact. Functions with exponentials have an error of some ulps of the value, however
//! small it is. For 16-bit types, and in the launch of a fast f32 convolution, the error is up to `2^-16` of
//! the value before it is rounded, and magnitudes below `2^-119` may become 0.
//!
//! The bound holds while intermediate values are in range. A result may be infinite or NaN although the exact
//! one is not, if a convolution's sum of magnitudes, or a norm's sum or sum of squared deviations, exceeds
//! 3.4e38, or if a stored intermediate value exceeds its type.

pub use crate::model::convolution::{
    conv_transpose1d, conv_transpose1d_with, conv_transpose2d, conv_transpose2d_with,
    conv_transpose3d, conv_transpose3d_with, conv1d, conv1d_with, conv2d, conv2d_with, conv3d,
    conv3d_with, linear, linear_with,
};
pub use crate::operators::arithmetic::{Other, add, div, mul, sub};
pub use crate::operators::batch_norm::batch_norm;
pub use crate::operators::group_norm::group_norm;
pub use crate::operators::instance_norm::instance_norm;
pub use crate::operators::layer_norm::layer_norm;
pub use crate::operators::max_pool2d::max_pool2d;
pub use crate::operators::pointwise::*;
pub use crate::operators::pool::{
    adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool2d, avg_pool3d, max_pool3d,
};
pub use crate::operators::precision::Precision;
pub use crate::operators::prelu::prelu;
pub use crate::operators::reduction::reduction;
pub use crate::operators::scale::scale;
pub use crate::operators::softmax::{log_softmax, softmax};
pub use crate::operators::upsample::upsample;
