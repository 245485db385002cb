//! Warp-specialized tiles on Hopper: producer warps load operands to shared memory, and two consumer
//! warpgroups multiply them.
//!
//! A block has two tiles of [`WARP_SPECIALIZED`], one for each warpgroup, of neighbouring filters and the
//! same pixels. Where tiles are few, a block has one tile, and each warpgroup half of its pixels. Filters and
//! halo tiles come through two pipelines: a filter stage has the [`MMA_BATCH_STEPS`] MMA steps of an MMA
//! batch, a halo stage one K block.
//!
//! Blocks of the f16x2 format have one tile: registers hold the accumulators of an MMA batch and the promoted
//! sums. Three products for each loaded byte leave enough time to load it.
//!
//! The number of tiles of a block changes neither sums nor moments: moments are taken over each half of a
//! tile's pixels.
//!
//! Split-K: where a sample has few pixels and sums are long, the blocks of a cluster have the same tiles, and
//! a share of the K blocks each. Each share of a tile's results is finished in one of the blocks, by its
//! owner warp. The warps with the same index in the other blocks send their accumulators to it. The additions
//! round, so results depend on the number of blocks ([`GemmConfig::split_k`]).

pub(super) mod block;
mod mainloop;
mod split_k;
mod suits;
pub(super) mod tiles;
mod write_bound;

pub use block::{
    BLOCK_THREADS, HALF_PIXELS, HALO_WARPS, HALVES, MMA_STEP_BYTES, TARGET_BYTES,
    TILE_COORD_ALL_WORDS, TILE_COORD_WORDS, TILE_COORDS, WARP_FILTERS, WARPGROUPS, WARPS,
    WRITTEN_BYTES, WRITTEN_PADDING, WRITTEN_WORDS,
};
pub use mainloop::{MainloopConfig, Residency, Schedule, WarpSpecializedLayout};
pub(crate) use suits::suits;
pub(crate) use tiles::{COSTS, RATES};
pub use tiles::{TILES, W64N128, WARP_SPECIALIZED};

use super::{
    GemmConfig, GemmDevice, ImplicitGemmGeometry, K_VECTOR_BYTES, K_VECTOR_VALUES, MMA_BATCH_STEPS,
    MMA_STEP_K_VECTORS, OperandFormat,
};
use crate::clusters::at_once;
use crate::pipeline::Skip;
use block::{
    FILTER_SWIZZLE_BYTES, MIN_FILTER_STAGES, MORE_STAGED_TILES_PER_WARP, STAGED_TILES_PER_WARP,
};

/// The fewest pipeline stages: one is filled while the other is read.
const MIN_STAGES: u32 = 2;

/// The most filter stages, unless filters are resident: more of them gain nothing.
const MAX_FILTER_STAGES: u32 = 8;

/// The most MMA batches whose filters may be resident: more than any shared memory has room for.
const MAX_RESIDENT_BATCHES: u32 = 64;

/// The most halo stages: one that is read, and one for each producer warp of halo tiles.
const MAX_HALO_STAGES: u32 = HALO_WARPS + 1;
const _: () = assert!(MAX_HALO_STAGES + 3 <= TILE_COORDS);

/// The most bytes of a halo tile of planes per MMA step for which the ping-pong schedule pays without
/// resident filters (docs/tuning.md).
const PING_PONG_STEP_BYTES: u32 = 2048;

/// Cycles of sending accumulators to another block.
const EXCHANGE_CYCLES: u64 = 2_500;

/// Cycles of the tensor cores for an MMA step of a tile.
const STEP_CYCLES: u64 = 128;

/// Bytes of results that memory takes from a multiprocessor in a cycle.
const WRITTEN_PER_CYCLE: u64 = 13;

/// Cost of a filter in blocks of one tile, in per cent of its cost in blocks of two tiles: each halo tile is
/// loaded for half as many filters.
const ONE_TILE_COST: u64 = 115;

impl ImplicitGemmGeometry {
    /// Returns the K blocks of block `rank` of `split_k` blocks, a power of two: the first one, and the end.
    /// There are at least as many K blocks as blocks, so each block has one.
    #[must_use]
    #[inline(always)]
    pub const fn warp_specialized_k_blocks(&self, rank: u32, split_k: u32) -> [u32; 2] {
        let shift = split_k.trailing_zeros();
        [
            (self.k_blocks * rank) >> shift,
            (self.k_blocks * (rank + 1)) >> shift,
        ]
    }

    /// Sets of filters: groups of `tiles` tiles of filters, one for a block.
    #[must_use]
    pub const fn warp_specialized_sets(&self, tiles: u32) -> u32 {
        self.conv.groups * self.warp_specialized_sets_of_group(tiles)
    }

    /// Sets of filters of a convolution group.
    #[must_use]
    #[inline(always)]
    pub const fn warp_specialized_sets_of_group(&self, tiles: u32) -> u32 {
        // `tiles` is 1 or 2. A division would check for 0.
        (self.filter_tiles + tiles - 1) >> (tiles - 1)
    }

    /// MMA batches of a tile.
    #[must_use]
    const fn mma_batches(&self) -> u32 {
        (self.k_blocks * self.mma_steps).div_ceil(MMA_BATCH_STEPS)
    }

    /// The mainloop with a filter stage for each MMA batch, so that filters are resident. It must leave room
    /// for a halo stage for each producer warp of halo tiles.
    const fn resident_filters(
        &self,
        format: OperandFormat,
        mainloop: MainloopConfig,
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        let mut mainloop = MainloopConfig {
            halos: MAX_HALO_STAGES,
            filters: self.mma_batches(),
            residency: Residency::RESIDENT,
            ..mainloop
        };
        if mainloop.split_k > 1 || mainloop.filters > MAX_RESIDENT_BATCHES {
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

    /// The mainloop of blocks of `tiles` tiles in clusters of `split_k`, with as many pipeline stages as
    /// shared memory has room for; none if there is room for too few.
    #[must_use]
    pub const fn mainloop_config(
        &self,
        format: OperandFormat,
        [tiles, split_k]: [u32; 2],
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        self.max_stages(
            format,
            [tiles, split_k],
            Schedule::COOPERATIVE,
            shared_bytes,
        )
    }

    /// As [`mainloop_config`](Self::mainloop_config), with a schedule.
    const fn max_stages(
        &self,
        format: OperandFormat,
        blocks: [u32; 2],
        schedule: Schedule,
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        if !self.is_converted_in_producer() {
            return self.stages_beside(format, blocks, (schedule, 0), shared_bytes);
        }
        let staged = (schedule, STAGED_TILES_PER_WARP);
        let Some(mainloop) = self.stages_beside(format, blocks, staged, shared_bytes) else {
            return None;
        };
        if mainloop.halos == MIN_STAGES {
            let staged = (schedule, MORE_STAGED_TILES_PER_WARP);
            let more = self.stages_beside(format, blocks, staged, shared_bytes);
            if let Some(more) = more
                && more.halos == MIN_STAGES
                && more.filters >= MIN_FILTER_STAGES
            {
                return Some(more);
            }
        }
        Some(mainloop)
    }

    /// As `max_stages`, with `staged` staging buffers for each converting warp.
    const fn stages_beside(
        &self,
        format: OperandFormat,
        [tiles, split_k]: [u32; 2],
        (schedule, staged): (Schedule, u32),
        shared_bytes: u32,
    ) -> Option<MainloopConfig> {
        let mut mainloop = MainloopConfig {
            tiles,
            split_k,
            halos: MIN_STAGES,
            filters: MIN_STAGES,
            residency: Residency::STREAMED,
            schedule,
            staged,
            staged_barrier: 0,
            staged_at: 0,
            staged_bytes: 0,
            halo_skip: Skip::NONE,
            filter_skip: Skip::NONE,
        };
        if let Some(mainloop) = self.resident_filters(format, mainloop, shared_bytes) {
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

    /// Adds to `mainloop` what kernels would otherwise recompute: the positions of the staging buffers, and
    /// the stages of a tile.
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
        mainloop.halo_skip = Skip::of(self.k_blocks, mainloop.halos);
        mainloop.filter_skip = Skip::of(self.mma_batches(), mainloop.filters);
        mainloop
    }

    /// Returns the time of `work_tiles` tiles of pixels in blocks of one tile and of two, in clusters of
    /// `split_k`, in hundredths of the time of a tile. The second time is `u64::MAX` where two tiles are
    /// impossible. Beside split values or reduced results, registers have room for one tile only. Filters for
    /// two outputs in depth have one tile in a group. Shared memory may be too small.
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
        let halves = self.epilogue.is_reduced() || self.outputs_d > 1;
        if format.parts > 1 || halves || two.is_none() {
            return Some([rounds(1)?.checked_mul(100)?, u64::MAX]);
        }
        let one = rounds(1)?.checked_mul(ONE_TILE_COST)?;
        let two = rounds(2)?.checked_mul(200)?;
        Some([one, two])
    }

    /// The map of a block's shared memory, in bytes.
    #[must_use]
    pub const fn warp_specialized_layout(
        &self,
        format: OperandFormat,
        mainloop: MainloopConfig,
    ) -> WarpSpecializedLayout {
        // At the start, so that no register holds its address.
        let coords = 0;
        let offsets = coords + 4 * TILE_COORD_ALL_WORDS;
        let pixels = (offsets + 4 * self.offsets).next_multiple_of(8);
        let positions = pixels + 4 * WARP_SPECIALIZED.pixels();
        let sources = (positions + 4 * WARP_SPECIALIZED.pixels()).next_multiple_of(K_VECTOR_BYTES);
        let channels = (sources + 4 * self.source_words()).next_multiple_of(K_VECTOR_BYTES);
        let barriers = channels + mainloop.tiles * WARP_SPECIALIZED.filters() * 4 * 4;
        let results = (barriers + 8 * mainloop.barriers()).next_multiple_of(TARGET_BYTES);
        let exchange = results + 4 * WARPS * WRITTEN_WORDS;
        let filters = (exchange + 4 * mainloop.exchanged()).next_multiple_of(FILTER_SWIZZLE_BYTES);
        let halos =
            filters + mainloop.filters * mainloop.tiles * mma_batch_bytes(format.step_parts());
        let staged = halos + mainloop.halos * self.k_block_bytes(format.parts);
        WarpSpecializedLayout {
            coords,
            offsets,
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

/// Bytes of a tile's filters for an MMA batch, in a format of `parts` parts a step.
#[must_use]
pub const fn mma_batch_bytes(parts: u32) -> u32 {
    MMA_BATCH_STEPS * parts * MMA_STEP_BYTES
}

/// Returns the index, in a part of an MMA step, of word `word` (values `2 * word` and `2 * word + 1`) of
/// K-vector `k_vector` of filter `filter`. A filter is a line of two K-vectors, which are exchanged in every
/// second set of four filters. This is the 32-byte swizzle that boxes of filters in place have.
#[must_use]
pub const fn filter_word(filter: u32, k_vector: u32, word: u32) -> u32 {
    let swizzled = k_vector ^ (filter / 4 % 2);
    (filter * MMA_STEP_K_VECTORS + swizzled) * (K_VECTOR_VALUES / 2) + word
}

/// Clusters of `split_k` blocks that run at the same time.
fn clusters_at_once(split_k: u32, device: &GemmDevice) -> u64 {
    match split_k {
        1 => device.multiprocessors.into(),
        split_k => at_once(split_k, device.multiprocessors).max(1),
    }
}

impl GemmConfig {
    /// The mainloop of a block on a device, if the tile is warp-specialized.
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

    /// The ping-pong mainloop, where it takes less time for `work_tiles` tiles of pixels. A block must have
    /// more than one tile of pixels, and one of these must hold: filters are resident; the producer converts;
    /// the format is a stored 16-bit type and the halo tile is NHWC or small for each step. Results do not
    /// depend on the schedule.
    fn ping_pong_mainloop(&self, device: &GemmDevice, work_tiles: u64) -> Option<MainloopConfig> {
        let (g, format) = (&self.geometry, self.format);
        let tiles = work_tiles.checked_mul(g.warp_specialized_sets(1).into())?;
        let has_two = tiles > u64::from(device.multiprocessors);
        let takes_turns = format.parts == 1 && self.split_k == 1 && !g.epilogue.is_reduced();
        if !takes_turns || !has_two {
            return None;
        }
        let mainloop = g.max_stages(format, [1, 1], Schedule::PING_PONG, device.shared_bytes)?;
        let loads_little = g.has_nhwc_tile()
            || g.k_block_bytes(format.parts) <= PING_PONG_STEP_BYTES * g.mma_steps;
        let pays = format.is_stored() && loads_little || g.is_converted_in_producer();
        (mainloop.residency.is_resident() || pays).then_some(mainloop)
    }

    /// Checks whether ping-pong is faster although there are filters for two tiles of a block. Filters must
    /// be resident. Results are written while the other warpgroup multiplies, but each tile of filters loads
    /// its own halo tiles.
    fn prefers_ping_pong(&self, device: &GemmDevice) -> bool {
        let (g, format) = (&self.geometry, self.format);
        let mma_steps = u64::from(g.k_blocks) * u64::from(g.mma_steps);
        let multiplying = mma_steps * STEP_CYCLES;
        let outputs = u64::from(self.tile.filters() * self.tile.pixels());
        let writing = u64::from(format.value_bytes()) * outputs / WRITTEN_PER_CYCLE;
        let copying = u64::from(g.k_blocks) * u64::from(g.k_block_bytes(format.parts))
            / COSTS.copied_per_cycle;
        let together = copying.max(2 * multiplying) + 2 * writing;
        let alternating = 2 * multiplying.max(writing).max(copying);
        let ping_pong = || self.ping_pong_mainloop(device, g.work_tiles());
        // Each tile of filters would convert the same pixels again.
        !g.is_converted_in_producer()
            && 10 * alternating < 9 * together
            && ping_pong().is_some_and(|mainloop| mainloop.residency.is_resident())
    }

    /// The mainloop of the cooperative schedule for blocks of `tiles` tiles.
    fn mainloop_of(&self, tiles: u32, device: &GemmDevice) -> Option<MainloopConfig> {
        let blocks = [tiles, self.split_k];
        (self.geometry).mainloop_config(self.format, blocks, device.shared_bytes)
    }

    /// Tiles of a block, for the actual number of samples. Results do not depend on their number.
    pub(super) fn warp_specialized_tiles(&self, device: &GemmDevice) -> u32 {
        let g = &self.geometry;
        match g.warp_specialized_rounds(self.format, self.split_k, device, g.work_tiles()) {
            Some([one, two]) if two <= one && !self.prefers_ping_pong(device) => 2,
            _ => 1,
        }
    }

    /// Clusters that run at the same time, with one block to a multiprocessor; single blocks without split-K.
    pub(super) fn warp_specialized_clusters(&self, device: &GemmDevice) -> u64 {
        clusters_at_once(self.split_k, device)
    }

    /// Approximate cycles of `work_tiles` tiles of pixels. `consumer` is the time of a tile's MMAs,
    /// `finishing` that of its epilogue, and `serial` the time that nothing overlaps. In the ping-pong
    /// schedule one warpgroup multiplies while the other does its epilogue, so two tiles take the longest of:
    /// one tile from its first MMA to its last result, the MMAs of both, and the loads of their halo tiles.
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
            let copying = bytes * u64::from(HALO_WARPS) / (COSTS.copied_per_cycle * filling);
            let bound = of_block.max(copying);
            let others = (rounds - 1).checked_mul(bound.max(tile / 2))?;
            return others.checked_add(tile);
        }
        Some(one.min(two).checked_mul(tile)? / 100)
    }
}
