//! `prelu` is the scale of what is not above 0, by a slope for each channel.
//!
//! One slope for all channels is that of one channel, which all elements are. So there is no kernel here: see
//! [`scale()`].

pub use crate::scale::scale;
