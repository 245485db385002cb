//! `prelu` scales values that are not above 0, by a slope for each channel.
//!
//! A single slope for all channels is the case of one channel that has all elements. The kernel is
//! [`scale()`].

pub use crate::scale::scale;
