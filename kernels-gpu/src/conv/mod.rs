//! `conv1d`, `conv2d` and `conv3d` by themselves, on FMA units.
//!
//! `nhwc` is for few filters of channels-last tensors of 16 bits. `pad` is for what `direct` does not read by
//! itself: anything but zeros on both sides alike.

mod direct;
mod nhwc;
mod pad;
mod window;

pub use direct::*;
pub use nhwc::*;
pub use pad::*;
