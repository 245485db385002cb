//! `batch_norm` at inference: four parameters of a channel are folded into two, which one elementwise pass
//! applies.

use super::Presence;

/// The four parameters of every channel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoldGeometry {
    /// Added to the variance, in the precision of the folding.
    pub eps: f64,
    /// Channels of a sample.
    pub channels: u32,
    /// The weight of each channel.
    pub weight: Presence,
    /// The bias of each channel.
    pub bias: Presence,
    /// Always 0: padding, because kernel parameters must not have implicit padding.
    pub unused: u32,
}
