//! `batch_norm`. At inference four parameters of a channel are folded into two, which one elementwise pass
//! applies. By the batch's statistics it is a norm of each channel of each sample, but for one launch, which
//! gives all samples the moments of the batch.

use super::norm::{NormGeometry, STATS_THREADS};
use super::{LaunchShape, Presence};

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

impl FoldGeometry {
    /// That of no batch norm.
    pub const NONE: Self = Self {
        eps: 0.0,
        channels: 0,
        weight: Presence::ABSENT,
        bias: Presence::ABSENT,
        unused: 0,
    };
}

/// The moments of each channel of each sample, of which those of the batch are made.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchMoments {
    /// The norm of each channel of each sample.
    pub norm: NormGeometry,
    /// The weight of the batch's statistics in the new running ones.
    pub momentum: f32,
    /// The running statistics, which are renewed where they are there.
    pub running: Presence,
}

impl BatchMoments {
    /// Of `norm`, which renews running statistics with this momentum, if with any.
    #[must_use]
    pub const fn new(norm: NormGeometry, momentum: Option<f64>) -> Self {
        let (momentum, running) = match momentum {
            Some(momentum) => (momentum as f32, true),
            None => (0.0, false),
        };
        Self {
            norm,
            momentum,
            running: Presence::of(running),
        }
    }

    /// Launch of the kernel: a block for each channel.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.norm.channels as u64, STATS_THREADS)
    }
}
