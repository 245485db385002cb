//! Warp-specialized tiles on Hopper: two consumer warpgroups multiply what producer warps load to shared
//! memory.
//!
//! A block has one tile of [`WARP_SPECIALIZED`] for each warpgroup, of neighbouring filters and the same
//! pixels; or one tile, of whose pixels each warpgroup has half, where there are few tiles. Filters and halo
//! tiles come through two pipelines: a filter stage has the [`MMA_BATCH_STEPS`] MMA steps of an MMA batch, a
//! halo stage one K block.
//!
//! Blocks of f16x2 split values have one tile: the accumulators of an MMA batch stand beside the promoted
//! total, and three products for each loaded byte leave time enough to load it.
//!
//! The number of tiles of a block changes neither sums nor moments: moments are taken over each half of a
//! tile's pixels.
//!
//! Split-K: where a sample has few pixels and an output is a long sum, the blocks of a cluster have the same
//! tiles and a share of the K blocks each. A warp finishes a share of the tile's results in one of the
//! blocks, to which the warps of its number in the other blocks send their accumulators. The additions round,
//! so results depend on the number of blocks ([`GemmConfig::split_k`]).

pub(super) mod block;
mod mainloop;
mod split_k;
pub(super) mod tiles;

pub use block::{
    BLOCK_THREADS, HALF_PIXELS, HALO_WARPS, HALVES, MMA_STEP_BYTES, TARGET_BYTES, WARP_FILTERS,
    WARPGROUPS, WARPS, WRITTEN_BYTES, WRITTEN_PADDING, WRITTEN_WORDS,
};
pub use mainloop::{MainloopConfig, WarpSpecializedLayout};
pub use tiles::{W64N128, WARP_SPECIALIZED};

use super::costs::COPIED_PER_CYCLE;
use super::{
    GemmConfig, GemmDevice, GemmGeometry, K_VECTOR_BYTES, K_VECTOR_VALUES, MMA_BATCH_STEPS,
    OperandFormat,
};
use crate::clusters::at_once;
use block::{
    MIN_FILTER_STAGES, MORE_STAGED_TILES_PER_WARP, STAGED_TILE_WORDS, STAGED_TILES_PER_WARP,
};

/// Fewer pipeline stages than this leave nothing to fill while others are read.
const MIN_STAGES: u32 = 2;

/// More filter pipeline stages than this load nothing, unless there is one for each chain.
const MAX_FILTER_STAGES: u32 = 8;

/// Chains whose filters may stay: as many as any shared memory has room for.
const MAX_STAYING: u32 = 64;

/// As many halo tile pipeline stages have one to read, and one for each warp that loads halo tiles.
const MAX_HALO_STAGES: u32 = HALO_WARPS + 1;

/// Where filters come anew for each tile, more bytes of a halo tile of planes than this for each step are
/// better loaded for halves of a tile than for warpgroups that alternate (docs/tuning.md).
const PING_PONG_STEP_BYTES: u32 = 2048;

/// Cycles that sums take to another block.
const EXCHANGE_CYCLES: u64 = 2_500;

/// What half a tile for each warpgroup costs more for each filter than whole ones, in hundredths: halo tiles
/// are loaded for half as many filters.
const ONE_TILE_COST: u64 = 115;

impl GemmGeometry {
    /// The K blocks of block `rank` of `split_k`, a power of two, that split them: the first one, and the one
    /// behind the last.
    #[must_use]
    #[inline(always)]
    pub const fn warp_specialized_k_blocks(&self, rank: u32, split_k: u32) -> [u32; 2] {
        let shift = split_k.trailing_zeros();
        [
            (self.k_blocks * rank) >> shift,
            (self.k_blocks * (rank + 1)) >> shift,
        ]
    }

    /// Sets of filters for blocks of `tiles` tiles.
    #[must_use]
    pub const fn warp_specialized_sets(&self, tiles: u32) -> u32 {
        self.conv.groups * self.warp_specialized_sets_of_group(tiles)
    }

    /// Those of a group.
    #[must_use]
    #[inline(always)]
    pub const fn warp_specialized_sets_of_group(&self, tiles: u32) -> u32 {
        // Of one tile or two; a division would have to ask whether it is by 0.
        (self.filter_tiles + tiles - 1) >> (tiles - 1)
    }

    /// Chains of a tile.
    #[must_use]
    const fn mma_batches(&self) -> u32 {
        (self.k_blocks * self.mma_steps).div_ceil(MMA_BATCH_STEPS)
    }

    /// Pipeline stages for all of a block's filters, if they leave room for one halo tile for each warp that
    /// loads halo tiles.
    const fn filters_stay(
        &self,
        format: OperandFormat,
        mainloop: MainloopConfig,
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        let mut mainloop = MainloopConfig {
            halos: MAX_HALO_STAGES,
            filters: self.mma_batches(),
            stay: 1,
            ..mainloop
        };
        if mainloop.split_k > 1 || mainloop.filters > MAX_STAYING {
            return None;
        }
        while mainloop.halos >= HALO_WARPS {
            if self.warp_specialized_layout(format, mainloop).end <= shared_bytes {
                return Some(mainloop);
            }
            mainloop.halos -= 1;
        }
        None
    }

    /// As many pipeline stages as there is room for, if it is enough, of blocks of `tiles` tiles, `split_k`
    /// of which split their sums.
    #[must_use]
    pub const fn mainloop_config(
        &self,
        format: OperandFormat,
        [tiles, split_k]: [u32; 2],
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        self.max_stages(format, [tiles, split_k, 0], shared_bytes)
    }

    /// The same with blocks whose warpgroups take tiles of pixels in turn, if `ping_pong` is 1.
    const fn max_stages(
        &self,
        format: OperandFormat,
        blocks: [u32; 3],
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        if !self.is_converted_in_producer() {
            return self.stages_beside(format, blocks, 0, shared_bytes);
        }
        let Some(mainloop) =
            self.stages_beside(format, blocks, STAGED_TILES_PER_WARP, shared_bytes)
        else {
            return None;
        };
        if mainloop.halos == MIN_STAGES {
            let more = self.stages_beside(format, blocks, MORE_STAGED_TILES_PER_WARP, shared_bytes);
            if let Some(more) = more
                && more.halos == MIN_STAGES
                && more.filters >= MIN_FILTER_STAGES
            {
                return Some(more);
            }
        }
        Some(mainloop)
    }

    /// The same beside `staged` pipeline stages for each warp that rounds.
    const fn stages_beside(
        &self,
        format: OperandFormat,
        [tiles, split_k, ping_pong]: [u32; 3],
        staged: u32,
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        let mut mainloop = MainloopConfig {
            tiles,
            split_k,
            halos: MIN_STAGES,
            filters: MIN_STAGES,
            stay: 0,
            ping_pong,
            staged,
            staged_barrier: 0,
            staged_at: 0,
            staged_bytes: 0,
        };
        if let Some(mainloop) = self.filters_stay(format, mainloop, shared_bytes) {
            return Some(self.with_places(format, mainloop));
        }
        if self.warp_specialized_layout(format, mainloop).end > shared_bytes {
            return None;
        }
        loop {
            let filters = MainloopConfig {
                filters: mainloop.filters + 1,
                ..mainloop
            };
            let halos = MainloopConfig {
                halos: mainloop.halos + 1,
                ..mainloop
            };
            // Filters first, then halo tiles in turn with them.
            let more_filters = mainloop.filters < MAX_FILTER_STAGES
                && self.warp_specialized_layout(format, filters).end <= shared_bytes;
            let more_halos = mainloop.halos < MAX_HALO_STAGES
                && self.warp_specialized_layout(format, halos).end <= shared_bytes;
            if more_halos && (mainloop.filters > mainloop.halos + 1 || !more_filters) {
                mainloop = halos;
            } else if more_filters {
                mainloop = filters;
            } else {
                return Some(self.with_places(format, mainloop));
            }
        }
    }

    /// The same with where staged pieces are, which kernels would else compute anew.
    const fn with_places(
        &self,
        format: OperandFormat,
        mut mainloop: MainloopConfig,
    ) -> MainloopConfig {
        if mainloop.staged > 0 {
            mainloop.staged_barrier = mainloop.barriers_of_stages();
            mainloop.staged_at = self.warp_specialized_layout(format, mainloop).staged;
            mainloop.staged_bytes = self.staged_tiles.staged_bytes;
        }
        mainloop
    }

    /// The time that `work_tiles` tiles of pixels take in blocks of one tile and of two, in hundredths of one
    /// tile of filters, where `split_k` blocks share sums; more than anything where there are none of two:
    /// for split values, whose sums leave registers for one, for filters that make two outputs, of which
    /// there is one tile in a group, and where shared memory has no room.
    pub(super) fn warp_specialized_rounds(
        &self,
        format: OperandFormat,
        split_k: u32,
        device: &GemmDevice,
        work_tiles: u64,
    ) -> Option<[u64; 2]> {
        let rounds = |tiles| {
            let clusters = work_tiles.checked_mul(self.warp_specialized_sets(tiles).into())?;
            Some(clusters.div_ceil(clusters_at_once(split_k, device)))
        };
        let two = self.mainloop_config(format, [2, split_k], device.shared_bytes);
        if format.parts > 1 || self.outputs_d > 1 || two.is_none() {
            return Some([rounds(1)?.checked_mul(100)?, u64::MAX]);
        }
        let one = rounds(1)?.checked_mul(ONE_TILE_COST)?;
        let two = rounds(2)?.checked_mul(200)?;
        Some([one, two])
    }

    /// Words of the table of sources: one for each K-vector of a halo tile of planes, [`STAGED_TILE_WORDS`]
    /// for each piece of one of lines.
    #[must_use]
    pub const fn source_words(&self) -> u32 {
        if self.has_nhwc_tile() {
            STAGED_TILE_WORDS * self.staged_tiles.of_k_block
        } else {
            self.halo_k_vectors
        }
    }

    /// Where the parts of a block's shared memory lie, in bytes.
    #[must_use]
    pub const fn warp_specialized_layout(
        &self,
        format: OperandFormat,
        mainloop: MainloopConfig,
    ) -> WarpSpecializedLayout {
        let pixels = (4 * self.offsets).next_multiple_of(8);
        let positions = pixels + 4 * WARP_SPECIALIZED.pixels();
        let sources = (positions + 4 * WARP_SPECIALIZED.pixels()).next_multiple_of(K_VECTOR_BYTES);
        let channels = (sources + 4 * self.source_words()).next_multiple_of(K_VECTOR_BYTES);
        let barriers = channels + mainloop.tiles * WARP_SPECIALIZED.filters() * 4 * 4;
        let results = (barriers + 8 * mainloop.barriers()).next_multiple_of(TARGET_BYTES);
        let exchange = results + 4 * WARPS * WRITTEN_WORDS;
        let filters = exchange + 4 * mainloop.exchanged();
        let halos =
            filters + mainloop.filters * mainloop.tiles * mma_batch_bytes(format.step_parts());
        let staged = halos + mainloop.halos * self.k_block_bytes(format.parts);
        WarpSpecializedLayout {
            offsets: 0,
            pixels,
            positions,
            sources,
            channels,
            barriers,
            results,
            exchange,
            filters,
            halos,
            staged,
            end: staged + HALO_WARPS * mainloop.staged * self.staged_tiles.staged_bytes,
        }
    }
}

/// Bytes of the filters of a chain of one tile, of which each step multiplies `parts` parts.
#[must_use]
pub const fn mma_batch_bytes(parts: u32) -> u32 {
    MMA_BATCH_STEPS * parts * MMA_STEP_BYTES
}

/// The 32-bit word of a step's part that has values `2 * word` and one more of a K-vector, of a filter of a
/// tile: the filters of one K-vector follow each other, as rows of core matrices do.
#[must_use]
pub const fn filter_word(filter: u32, k_vector: u32, word: u32) -> u32 {
    (k_vector * WARP_SPECIALIZED.filters() + filter) * (K_VECTOR_VALUES / 2) + word
}

/// Clusters of `split_k` blocks that run at once.
fn clusters_at_once(split_k: u32, device: &GemmDevice) -> u64 {
    match split_k {
        1 => device.multiprocessors.into(),
        split_k => at_once(split_k, device.multiprocessors).max(1),
    }
}

impl GemmConfig {
    /// The pipeline stages of a block of the product on a device, if its tile is wide.
    #[must_use]
    pub fn mainloop_config(&self, device: &GemmDevice) -> Option<MainloopConfig> {
        if !self.tile.is_warp_specialized() {
            return None;
        }
        let tiles = self.warp_specialized_tiles(device);
        let ping_pong = || self.ping_pong_mainloop(device, self.geometry.work_tiles());
        let ping_pong = (tiles == 1).then(ping_pong).flatten();
        ping_pong.or_else(|| self.mainloop_of(tiles, device))
    }

    /// Those of warpgroups that alternate, where that takes less time for `work_tiles` tiles of pixels: with
    /// more than one tile for a block, and with filters that stay, or results of 16 bits and halo tiles of
    /// lines or little to load for a step. Results do not depend on it.
    fn ping_pong_mainloop(&self, device: &GemmDevice, work_tiles: u64) -> Option<MainloopConfig> {
        let (g, format) = (&self.geometry, self.format);
        let tiles = work_tiles.checked_mul(g.warp_specialized_sets(1).into())?;
        let has_two = tiles > u64::from(device.multiprocessors);
        if format.parts > 1 || self.split_k > 1 || !has_two {
            return None;
        }
        let mainloop = g.max_stages(format, [1, 1, 1], device.shared_bytes)?;
        let loads_little = g.has_nhwc_tile()
            || g.k_block_bytes(format.parts) <= PING_PONG_STEP_BYTES * g.mma_steps;
        let takes_turns = format.is_stored() && loads_little || g.is_converted_in_producer();
        (mainloop.stay == 1 || takes_turns).then_some(mainloop)
    }

    /// The same for blocks of `tiles` tiles.
    fn mainloop_of(&self, tiles: u32, device: &GemmDevice) -> Option<MainloopConfig> {
        let blocks = [tiles, self.split_k];
        (self.geometry).mainloop_config(self.format, blocks, device.shared_bytes)
    }

    /// Tiles of a block, for as many samples as there are. Results do not depend on it.
    pub(super) fn warp_specialized_tiles(&self, device: &GemmDevice) -> u32 {
        let g = &self.geometry;
        match g.warp_specialized_rounds(self.format, self.split_k, device, g.work_tiles()) {
            Some([one, two]) if two <= one => 2,
            _ => 1,
        }
    }

    /// Clusters of blocks that run at once, each of which has a multiprocessor; blocks where sums are not
    /// split.
    pub(super) fn warp_specialized_clusters(&self, device: &GemmDevice) -> u64 {
        clusters_at_once(self.split_k, device)
    }

    /// About how many cycles `work_tiles` tiles of pixels take, where the products of a tile of filters take
    /// `consumer` and what is made of them `finishing`, and `serial` is what nothing overlaps with. Of
    /// warpgroups that alternate one multiplies while the other does all else, so two tiles take what one
    /// takes from its first product to its last result, or the products of both, or their halo tiles.
    pub(super) fn warp_specialized_cost(
        &self,
        device: &GemmDevice,
        work_tiles: u64,
        [consumer, finishing, serial]: [u64; 3],
    ) -> Option<u64> {
        let g = &self.geometry;
        let k_blocks = g.k_blocks;
        let max_k_blocks = k_blocks.div_ceil(self.split_k);
        let of_block = consumer * u64::from(max_k_blocks) / u64::from(k_blocks);
        let exchange = if self.split_k > 1 { EXCHANGE_CYCLES } else { 0 };
        let tile = of_block + finishing / u64::from(self.split_k) + serial + exchange;
        let [one, two] =
            g.warp_specialized_rounds(self.format, self.split_k, device, work_tiles)?;
        let ping_pong = (one < two).then(|| self.ping_pong_mainloop(device, work_tiles));
        if let Some(mainloop) = ping_pong.flatten() {
            let tiles = work_tiles.checked_mul(g.warp_specialized_sets(1).into())?;
            let rounds = tiles.div_ceil(device.multiprocessors.into());
            let bytes = u64::from(k_blocks) * u64::from(g.k_block_bytes(self.format.parts));
            let filling = u64::from(mainloop.producer_warps());
            let copying = bytes * u64::from(HALO_WARPS) / (COPIED_PER_CYCLE * filling);
            let bound = of_block.max(copying);
            let others = (rounds - 1).checked_mul(bound.max(tile / 2))?;
            return others.checked_add(tile);
        }
        Some(one.min(two).checked_mul(tile)? / 100)
    }
}
