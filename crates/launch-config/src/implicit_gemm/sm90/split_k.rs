//! In how many parts sums are split, each by a block of a cluster.

use super::super::{ASSUMED_BATCH, GemmConfig, GemmDevice, MMA_BATCH_STEPS};

/// Blocks that may split a sum.
const SPLIT_K: [u32; 3] = [1, 2, 4];

/// Fewer chains than this are not worth a block of their own.
const MIN_SPLIT_K_MMA_BATCHES: u32 = 6;

/// What sums that are split are taken to cost, in quarters: a split must win by as much as estimates are off.
const SPLIT_QUARTERS: u64 = 5;

/// Samples of a small batch. Sums are split in as many parts as are best for it, ..
const FEW_SAMPLES: u64 = 2;

/// .. of those that cost the usual batch no more than so many percent of what is best for that: in two, and
/// in more, which gain less than they are taken to (docs/tuning.md).
const USUAL_PERCENT: [u64; 2] = [124, 112];

impl GemmConfig {
    /// The same with sums split as suits a batch of `batch` samples best.
    pub(in super::super) fn with_split_k(self, device: &GemmDevice, batch: u64) -> Self {
        let split = self.split_k_factors(device);
        let best = split.min_by_key(|config| config.cost_with_margin(device, batch));
        best.unwrap_or(self)
    }

    /// The same, which is best for the usual batch, with sums split as suits small batches best, where that
    /// costs the usual one little.
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

    /// The same with sums that are not split, and, if the tile is wide, in each way in which they can be.
    fn split_k_factors(self, device: &GemmDevice) -> impl Iterator<Item = Self> {
        let device = *device;
        (SPLIT_K.into_iter()).filter_map(move |split_k| self.split_by(split_k, &device))
    }

    /// What it costs, and a quarter more if sums are split.
    fn cost_with_margin(&self, device: &GemmDevice, batch: u64) -> u64 {
        let quarters = if self.split_k > 1 { SPLIT_QUARTERS } else { 4 };
        let cost = self.cost(device, batch).unwrap_or(u64::MAX);
        cost.saturating_mul(quarters)
    }

    /// The same with sums split by so many blocks, if each has enough to do and room for what others send.
    #[must_use]
    pub fn split_by(self, split_k: u32, device: &GemmDevice) -> Option<Self> {
        let split = Self { split_k, ..self };
        if split_k == 1 {
            return Some(split);
        }
        if !SPLIT_K.contains(&split_k)
            || split_k > device.multiprocessors
            || !self.tile.is_warp_specialized()
        {
            return None;
        }
        let g = &self.geometry;
        let mma_batches = g.k_blocks / split_k * (g.mma_steps / MMA_BATCH_STEPS);
        let has_room = split.mainloop_of(1, device).is_some();
        (mma_batches >= MIN_SPLIT_K_MMA_BATCHES && has_room).then_some(split)
    }
}
