//! `conv1d`, `conv2d` and `conv3d` on FMA units, without fusion.
//!
//! `direct` handles zero padding that is equal on both sides, and `pad` materialises any other padding.
//! `nhwc` is for channels-last tensors of 16-bit types and few filters.

mod direct;
mod mean;
mod nhwc;
mod pad;
mod window;

pub use direct::*;
pub use mean::*;
pub use nhwc::*;
pub use pad::*;
