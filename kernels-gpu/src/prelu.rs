//! `prelu` multiplies values that are not above 0 by the slope of their channel.
//!
//! A single slope for all channels is the case of one channel with all elements. The kernel is [`scale()`].

pub use crate::scale::scale;
