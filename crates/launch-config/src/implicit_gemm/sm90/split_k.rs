//! The choice of split-K: the number of blocks of a cluster that share a sum.

use super::super::{ASSUMED_BATCH, GemmConfig, GemmDevice, MMA_BATCH_STEPS};

/// The candidates for split-K.
const SPLIT_K: [u32; 3] = [1, 2, 4];

/// The fewest MMA batches of a block with split-K.
const MIN_SPLIT_K_MMA_BATCHES: u32 = 6;

/// Weight of the estimated cost with split-K, in quarters: split-K must win by the error of estimates.
const SPLIT_QUARTERS: u64 = 5;

/// Samples of a small batch, for which split-K is chosen.
const FEW_SAMPLES: u64 = 2;

/// Limits of the usual batch's cost with the split-K of small batches, in per cent of its least cost: for two
/// blocks, and for more blocks, which gain less than the estimate says (docs/tuning.md).
const USUAL_PERCENT: [u64; 2] = [124, 112];

impl GemmConfig {
    /// The config with the best split-K for a batch of `batch` samples.
    pub(in super::super) fn with_split_k(self, device: &GemmDevice, batch: u64) -> Self {
        let split = self.split_k_factors(device);
        let best = split.min_by_key(|config| config.cost_with_margin(device, batch));
        best.unwrap_or(self)
    }

    /// Returns the config, which is best for the usual batch, with another split-K: the best one for small
    /// batches among the candidates that cost the usual batch little.
    pub(in super::super) fn split_k_for_few(self, device: &GemmDevice) -> Self {
        let usual = |config: &Self| config.cost(device, ASSUMED_BATCH).unwrap_or(u64::MAX);
        let best = usual(&self);
        let is_cheap = |config: &Self| {
            let percent = USUAL_PERCENT[usize::from(config.split_k > 2)];
            usual(config) <= best.saturating_mul(percent) / 100
        };
        let split = self.split_k_factors(device).filter(is_cheap);
        let best = split.min_by_key(|config| config.cost_with_margin(device, FEW_SAMPLES));
        best.unwrap_or(self)
    }

    /// The config with each possible split-K. Only warp-specialized tiles have more than 1.
    fn split_k_factors(self, device: &GemmDevice) -> impl Iterator<Item = Self> {
        let device = *device;
        (SPLIT_K.into_iter()).filter_map(move |split_k| self.split_by(split_k, &device))
    }

    /// The estimated cost in quarters, with a margin of a quarter if sums are split.
    fn cost_with_margin(&self, device: &GemmDevice, batch: u64) -> u64 {
        let quarters = if self.split_k > 1 { SPLIT_QUARTERS } else { 4 };
        let cost = self.cost(device, batch).unwrap_or(u64::MAX);
        cost.saturating_mul(quarters)
    }

    /// Returns the config with this split-K, if each block has enough MMA batches and room for the
    /// accumulators of other blocks. Reduced results have no split-K: kernels would spill.
    #[must_use]
    pub fn split_by(self, split_k: u32, device: &GemmDevice) -> Option<Self> {
        let split = Self { split_k, ..self };
        if split_k == 1 {
            return Some(split);
        }
        if !SPLIT_K.contains(&split_k)
            || split_k > device.multiprocessors
            || !self.tile.is_warp_specialized()
            || self.geometry.epilogue.is_reduced()
        {
            return None;
        }
        let g = &self.geometry;
        let mma_batches = g.k_blocks / split_k * (g.mma_steps / MMA_BATCH_STEPS);
        let has_room = split.mainloop_of(1, device).is_some();
        (mma_batches >= MIN_SPLIT_K_MMA_BATCHES && has_room).then_some(split)
    }
}
