//! `conv1d`, `conv2d` and `conv3d` by themselves, on FMA units.
//!
//! `pad` is for what `direct` does not read by itself: anything but zeros on both sides alike.

mod direct;
mod pad;
mod window;

pub use direct::*;
pub use pad::*;
