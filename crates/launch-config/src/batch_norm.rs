//! `batch_norm`. At inference, a launch folds the four parameters of each channel into two, and one
//! elementwise pass applies them. With the batch's statistics, it is a norm of each channel of each sample
//! with one additional launch, which gives all samples the moments of the batch.

use super::norm::{NormGeometry, STATS_THREADS};
use super::{LaunchShape, Presence};

/// The by-value argument of the kernel that folds the four parameters of each channel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoldGeometry {
    /// Number added to the variance, in the precision of the folding.
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
    /// A placeholder without channels, where there is no batch norm.
    pub const NONE: Self = Self {
        eps: 0.0,
        channels: 0,
        weight: Presence::ABSENT,
        bias: Presence::ABSENT,
        unused: 0,
    };
}

/// The by-value argument of the kernel that combines the moments of each channel over the samples of a batch.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchMoments {
    /// The norm of each channel of each sample.
    pub norm: NormGeometry,
    /// The weight of the batch statistics in the updated running statistics.
    pub momentum: f32,
    /// Whether there are running statistics, which the kernel updates.
    pub running: Presence,
}

impl BatchMoments {
    /// Returns the argument for `norm`. With a momentum, the kernel updates the running statistics.
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

    /// The kernel's launch: one block per channel.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.norm.channels as u64, STATS_THREADS)
    }
}
