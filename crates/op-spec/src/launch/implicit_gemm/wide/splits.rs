//! In how many parts sums are split, each by a block of a cluster.

use super::super::{CHAIN_STEPS, GemmConfig, GemmDevice, USUAL_BATCH};

/// Blocks that may split a sum.
const SPLITS: [u32; 3] = [1, 2, 4];

/// Fewer chains than this are not worth a block of their own.
const FEWEST_SPLIT_CHAINS: u32 = 6;

/// What sums that are split are taken to cost, in quarters: a split must win by as much as estimates are off.
const SPLIT_QUARTERS: u64 = 5;

/// Samples of a small batch. Sums are split in as many parts as are best for it, ..
const FEW_SAMPLES: u64 = 2;

/// .. of those that cost the usual batch no more than so many percent of what is best for that: in two, and in more, which gain less than
/// they are taken to (docs/tuning.md).
const USUAL_PERCENT: [u64; 2] = [124, 112];

impl GemmConfig {
    /// The same with sums split as suits a batch of `batch` samples best.
    pub(in super::super) fn with_splits(self, device: &GemmDevice, batch: u64) -> Self {
        let split = self.splits_of_sums(device);
        let best = split.min_by_key(|config| config.cost_with_margin(device, batch));
        best.unwrap_or(self)
    }

    /// The same, which is best for the usual batch, with sums split as suits small batches best, where that costs the usual one little.
    pub(in super::super) fn split_for_few(self, device: &GemmDevice) -> Self {
        let usual = |config: &Self| config.cost(device, USUAL_BATCH).unwrap_or(u64::MAX);
        let best = usual(&self);
        let is_cheap = |config: &Self| {
            let percent = USUAL_PERCENT[usize::from(config.splits > 2)];
            usual(config) <= best.saturating_mul(percent) / 100
        };
        let split = self.splits_of_sums(device).filter(is_cheap);
        let best = split.min_by_key(|config| config.cost_with_margin(device, FEW_SAMPLES));
        best.unwrap_or(self)
    }

    /// The same with sums that are not split, and, if the tile is wide, in each way in which they can be.
    fn splits_of_sums(self, device: &GemmDevice) -> impl Iterator<Item = Self> {
        let device = *device;
        (SPLITS.into_iter()).filter_map(move |splits| self.split_by(splits, &device))
    }

    /// What it costs, and a quarter more if sums are split.
    fn cost_with_margin(&self, device: &GemmDevice, batch: u64) -> u64 {
        let quarters = if self.splits > 1 { SPLIT_QUARTERS } else { 4 };
        let cost = self.cost(device, batch).unwrap_or(u64::MAX);
        cost.saturating_mul(quarters)
    }

    /// The same with sums split by so many blocks, if each has enough to do and room for what others send.
    #[must_use]
    pub fn split_by(self, splits: u32, device: &GemmDevice) -> Option<Self> {
        let split = Self { splits, ..self };
        if splits == 1 {
            return Some(split);
        }
        if !SPLITS.contains(&splits) || splits > device.multiprocessors || !self.tile.is_wide() {
            return None;
        }
        let g = &self.geometry;
        let chains = g.stages / splits * (g.steps / CHAIN_STEPS);
        let has_room = split.rings_of(1, device).is_some();
        (chains >= FEWEST_SPLIT_CHAINS && has_room).then_some(split)
    }
}
