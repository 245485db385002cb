//! `batch_norm` at inference: four parameters of a channel are folded into two, which one elementwise pass
//! applies.

/// The four parameters of every channel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoldGeometry {
    /// Added to the variance, in the precision of the folding.
    pub eps: f64,
    /// Channels of a sample.
    pub channels: u32,
    /// 1 if there is a weight per channel, else 0.
    pub has_weight: u32,
    /// 1 if there is a bias per channel, else 0.
    pub has_bias: u32,
    /// Always 0: padding, because kernel parameters must not have implicit padding.
    pub unused: u32,
}
