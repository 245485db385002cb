//! The product of wide tiles: two warpgroups multiply what warps beside them bring to shared memory.
//!
//! A block has one tile of [`WIDE`] for each warpgroup, of filters that follow one another and the same
//! pixels; or one tile, of whose pixels each warpgroup has half. The latter is for few tiles. Filters and patches come in
//! rings of slots: a filter slot has the [`CHAIN_STEPS`] steps of a chain, a patch slot a stage.
//!
//! Blocks for split values have one tile: their chains' sums are beside those of the tile, and three products for each byte that
//! is brought leave time enough to bring it.
//!
//! How many tiles a block has changes nothing of what an output is the sum of, nor of what moments are taken over:
//! those of a tile are taken over each half of its pixels.
//!
//! Where a sample has few pixels and an output is a long sum, the blocks of a cluster *split* it: each has the same tiles and some of
//! the stages. A warp finishes a share of the tile's results in one of the blocks, to which the warps of its number in the others
//! send their sums. Sums of sums are rounded, so results depend on the number of blocks ([`GemmConfig::splits`]).

mod rings;
mod splits;

pub use rings::{WideLayout, WideRings};

use super::costs::COPIED_PER_CYCLE;
use super::lines::FEWEST_FILTER_SLOTS;
use super::pieces::{MORE_STAGED_PIECES, PIECE_WORDS, STAGED_PIECES};
use super::{
    CELL_BYTES, CELL_VALUES, CHAIN_STEPS, GemmConfig, GemmDevice, GemmGeometry, OperandFormat,
    STEP_CELLS, WIDE,
};
use crate::launch::WARP_THREADS;
use crate::launch::clusters::at_once;

/// Halves of a tile's pixels.
pub const HALVES: u32 = 2;

/// Pixels of one of them.
pub const HALF_PIXELS: u32 = WIDE.pixels() / HALVES;

/// Warps that multiply.
pub const WARPS: u32 = 8;

/// The warpgroups that they are.
pub const WARPGROUPS: u32 = 2;

/// Warps that bring patches, beside one that brings filters.
pub const PATCH_WARPS: u32 = 3;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = (WARPS + 1 + PATCH_WARPS) * WARP_THREADS;

/// Filters of a warp.
pub const WARP_FILTERS: u32 = 16;

/// Bytes of a filter's results that a warp has in shared memory at a time: of 64 pixels in f32, of 128 in 16 bits.
pub const WRITTEN_BYTES: u32 = 256;

/// Values between one filter's results there and the next one's, so that rows of two values for each of four lanes touch all banks
/// once: two for each word of rows of 16 bits, of which eight are stored at a time, and one for each of f32, of which
/// four are.
pub const WRITTEN_PADDING: u32 = 8;

/// Words of a warp's results there, which 16-bit ones do not fill.
pub const WRITTEN_WORDS: u32 = WARP_FILTERS * (WRITTEN_BYTES / 4 + WRITTEN_PADDING);

/// Bytes of the filters of one step of a tile, of each part.
pub const STEP_BYTES: u32 = WIDE.filters() * STEP_CELLS * CELL_BYTES;

/// What copies start on in shared memory: boxes have to, and a bulk copy that does not reads a quarter more sectors.
pub const TARGET_BYTES: u32 = 128;

/// Fewer slots than this leave nothing to fill while others are read.
const FEWEST_SLOTS: u32 = 2;

/// More filter slots than this bring nothing, unless there is one for each chain.
const MOST_FILTER_SLOTS: u32 = 8;

/// Chains whose filters may stay: as many as any shared memory has room for.
const MOST_STAYING: u32 = 64;

/// As many patch slots have one to read, and one for each warp that brings patches.
const MOST_PATCH_SLOTS: u32 = PATCH_WARPS + 1;

/// Where filters come anew for each tile, more bytes of a patch of planes than this for each step are better brought for halves of a tile than for warpgroups that alternate
/// (docs/tuning.md).
const ALTERNATING_STEP_BYTES: u32 = 2048;

/// Cycles that sums take to another block.
const EXCHANGE_CYCLES: u64 = 2_500;

/// Sums of a lane for each tile of its block: a tile's for the eight warps, or two tiles', of which four have one.
const TILE_SUMS: u32 = WIDE.filters() * WIDE.pixels() / (WARPS * WARP_THREADS);

/// What half a tile for each warpgroup costs more for each filter than whole ones, in hundredths: patches are brought for
/// half as many filters.
const ONE_TILE_COST: u64 = 115;

impl GemmGeometry {
    /// The stages of block `rank` of `splits`, a power of two, that split them: the first one, and the one behind the last.
    #[must_use]
    #[inline(always)]
    pub const fn wide_stages(&self, rank: u32, splits: u32) -> [u32; 2] {
        let shift = splits.trailing_zeros();
        [
            (self.stages * rank) >> shift,
            (self.stages * (rank + 1)) >> shift,
        ]
    }

    /// Sets of filters for blocks of `tiles` tiles.
    #[must_use]
    pub const fn wide_sets(&self, tiles: u32) -> u32 {
        self.conv.groups * self.wide_sets_of_group(tiles)
    }

    /// Those of a group.
    #[must_use]
    #[inline(always)]
    pub const fn wide_sets_of_group(&self, tiles: u32) -> u32 {
        // Of one tile or two; a division would have to ask whether it is by 0.
        (self.filter_tiles + tiles - 1) >> (tiles - 1)
    }

    /// Chains of a tile.
    #[must_use]
    const fn chains(&self) -> u32 {
        (self.stages * self.steps).div_ceil(CHAIN_STEPS)
    }

    /// Slots for all of a block's filters, if they leave room for one patch for each warp that brings patches.
    const fn filters_stay(
        &self,
        format: OperandFormat,
        rings: WideRings,
        shared_bytes: u32,
    ) -> Option<WideRings> {
        let mut rings = WideRings {
            patches: MOST_PATCH_SLOTS,
            filters: self.chains(),
            stay: 1,
            ..rings
        };
        if rings.splits > 1 || rings.filters > MOST_STAYING {
            return None;
        }
        while rings.patches >= PATCH_WARPS {
            if self.wide_layout(format, rings).end <= shared_bytes {
                return Some(rings);
            }
            rings.patches -= 1;
        }
        None
    }

    /// As many slots as there is room for, if it is enough, of blocks of `tiles` tiles, `splits` of which split their sums.
    #[must_use]
    pub const fn wide_rings(
        &self,
        format: OperandFormat,
        [tiles, splits]: [u32; 2],
        shared_bytes: u32,
    ) -> Option<WideRings> {
        self.most_slots(format, [tiles, splits, 0], shared_bytes)
    }

    /// The same with blocks whose warpgroups take tiles of pixels in turn, if `alternate` is 1.
    const fn most_slots(
        &self,
        format: OperandFormat,
        blocks: [u32; 3],
        shared_bytes: u32,
    ) -> Option<WideRings> {
        if !self.is_rounded_on_its_way() {
            return self.slots_beside(format, blocks, 0, shared_bytes);
        }
        let Some(rings) = self.slots_beside(format, blocks, STAGED_PIECES, shared_bytes) else {
            return None;
        };
        if rings.patches == FEWEST_SLOTS {
            let more = self.slots_beside(format, blocks, MORE_STAGED_PIECES, shared_bytes);
            if let Some(more) = more
                && more.patches == FEWEST_SLOTS
                && more.filters >= FEWEST_FILTER_SLOTS
            {
                return Some(more);
            }
        }
        Some(rings)
    }

    /// The same beside `staged` slots for each warp that rounds.
    const fn slots_beside(
        &self,
        format: OperandFormat,
        [tiles, splits, alternate]: [u32; 3],
        staged: u32,
        shared_bytes: u32,
    ) -> Option<WideRings> {
        let mut rings = WideRings {
            tiles,
            splits,
            patches: FEWEST_SLOTS,
            filters: FEWEST_SLOTS,
            stay: 0,
            alternate,
            staged,
            staged_barrier: 0,
            staged_at: 0,
            staged_bytes: 0,
        };
        if let Some(rings) = self.filters_stay(format, rings, shared_bytes) {
            return Some(self.with_places(format, rings));
        }
        if self.wide_layout(format, rings).end > shared_bytes {
            return None;
        }
        loop {
            let filters = WideRings {
                filters: rings.filters + 1,
                ..rings
            };
            let patches = WideRings {
                patches: rings.patches + 1,
                ..rings
            };
            // Filters first, then patches in turn with them.
            let more_filters = rings.filters < MOST_FILTER_SLOTS
                && self.wide_layout(format, filters).end <= shared_bytes;
            let more_patches = rings.patches < MOST_PATCH_SLOTS
                && self.wide_layout(format, patches).end <= shared_bytes;
            if more_patches && (rings.filters > rings.patches + 1 || !more_filters) {
                rings = patches;
            } else if more_filters {
                rings = filters;
            } else {
                return Some(self.with_places(format, rings));
            }
        }
    }

    /// The same with where staged pieces are, which kernels would else compute anew.
    const fn with_places(&self, format: OperandFormat, mut rings: WideRings) -> WideRings {
        if rings.staged > 0 {
            rings.staged_barrier = rings.barriers_of_slots();
            rings.staged_at = self.wide_layout(format, rings).staged;
            rings.staged_bytes = self.pieces.staged_bytes;
        }
        rings
    }

    /// The time that `items` tiles of pixels take in blocks of one tile and of two, in hundredths of one tile of filters, where
    /// `splits` blocks share sums; more than anything where there are none of two: for split values, whose sums leave registers for
    /// one, for filters that make two outputs, of which there is one tile in a group, and where shared memory has no room.
    pub(super) fn wide_rounds(
        &self,
        format: OperandFormat,
        splits: u32,
        device: &GemmDevice,
        items: u64,
    ) -> Option<[u64; 2]> {
        let rounds = |tiles| {
            let clusters = items.checked_mul(self.wide_sets(tiles).into())?;
            Some(clusters.div_ceil(clusters_at_once(splits, device)))
        };
        let two = self.wide_rings(format, [2, splits], device.shared_bytes);
        if format.parts > 1 || self.outputs_d > 1 || two.is_none() {
            return Some([rounds(1)?.checked_mul(100)?, u64::MAX]);
        }
        let one = rounds(1)?.checked_mul(ONE_TILE_COST)?;
        let two = rounds(2)?.checked_mul(200)?;
        Some([one, two])
    }

    /// Words of the table of sources: one for each cell of a patch of planes, [`PIECE_WORDS`] for each piece of one of lines.
    #[must_use]
    pub const fn source_words(&self) -> u32 {
        if self.has_lines() {
            PIECE_WORDS * self.pieces.of_stage
        } else {
            self.patch_cells
        }
    }

    /// Where the parts of a block's shared memory lie, in bytes.
    #[must_use]
    pub const fn wide_layout(&self, format: OperandFormat, rings: WideRings) -> WideLayout {
        let pixels = (4 * self.offsets).next_multiple_of(8);
        let positions = pixels + 4 * WIDE.pixels();
        let sources = (positions + 4 * WIDE.pixels()).next_multiple_of(CELL_BYTES);
        let channels = (sources + 4 * self.source_words()).next_multiple_of(CELL_BYTES);
        let barriers = channels + rings.tiles * WIDE.filters() * 4 * 4;
        let results = (barriers + 8 * rings.barriers()).next_multiple_of(TARGET_BYTES);
        let exchange = results + 4 * WARPS * WRITTEN_WORDS;
        let filters = exchange + 4 * rings.exchanged();
        let patches = filters + rings.filters * rings.tiles * chain_bytes(format.step_parts());
        let staged = patches + rings.patches * self.stage_bytes(format.parts);
        WideLayout {
            offsets: 0,
            pixels,
            positions,
            sources,
            channels,
            barriers,
            results,
            exchange,
            filters,
            patches,
            staged,
            end: staged + PATCH_WARPS * rings.staged * self.pieces.staged_bytes,
        }
    }
}

/// Bytes of the filters of a chain of one tile, of which each step multiplies `parts` parts.
#[must_use]
pub const fn chain_bytes(parts: u32) -> u32 {
    CHAIN_STEPS * parts * STEP_BYTES
}

/// The 32-bit word of a step's part that has values `2 * word` and one more of a cell, of a filter of a tile: the
/// filters of one cell follow each other, as rows of core matrices do.
#[must_use]
pub const fn filter_word(filter: u32, cell: u32, word: u32) -> u32 {
    (cell * WIDE.filters() + filter) * (CELL_VALUES / 2) + word
}

/// Clusters of `splits` blocks that run at once.
fn clusters_at_once(splits: u32, device: &GemmDevice) -> u64 {
    match splits {
        1 => device.multiprocessors.into(),
        splits => at_once(splits, device.multiprocessors).max(1),
    }
}

impl GemmConfig {
    /// The slots of a block of the product on a device, if its tile is wide.
    #[must_use]
    pub fn wide_rings(&self, device: &GemmDevice) -> Option<WideRings> {
        if !self.tile.is_wide() {
            return None;
        }
        let tiles = self.wide_tiles(device);
        let alternating = || self.alternating_rings(device, self.geometry.items());
        let alternating = (tiles == 1).then(alternating).flatten();
        alternating.or_else(|| self.rings_of(tiles, device))
    }

    /// Those of warpgroups that alternate, where that takes less time for `items` tiles of pixels: with more than one tile for a block, and with filters that stay, or
    /// results of 16 bits and patches of lines or little to bring for a step. Results do not depend on it.
    fn alternating_rings(&self, device: &GemmDevice, items: u64) -> Option<WideRings> {
        let (g, format) = (&self.geometry, self.format);
        let tiles = items.checked_mul(g.wide_sets(1).into())?;
        let has_two = tiles > u64::from(device.multiprocessors);
        if format.parts > 1 || self.splits > 1 || !has_two {
            return None;
        }
        let rings = g.most_slots(format, [1, 1, 1], device.shared_bytes)?;
        let brings_little =
            g.has_lines() || g.stage_bytes(format.parts) <= ALTERNATING_STEP_BYTES * g.steps;
        let takes_turns = format.is_stored() && brings_little || g.is_rounded_on_its_way();
        (rings.stay == 1 || takes_turns).then_some(rings)
    }

    /// The same for blocks of `tiles` tiles.
    fn rings_of(&self, tiles: u32, device: &GemmDevice) -> Option<WideRings> {
        let blocks = [tiles, self.splits];
        (self.geometry).wide_rings(self.format, blocks, device.shared_bytes)
    }

    /// Tiles of a block, for as many samples as there are. Results do not depend on it.
    pub(super) fn wide_tiles(&self, device: &GemmDevice) -> u32 {
        let g = &self.geometry;
        match g.wide_rounds(self.format, self.splits, device, g.items()) {
            Some([one, two]) if two <= one => 2,
            _ => 1,
        }
    }

    /// Clusters of blocks that run at once, each of which has a multiprocessor; blocks where sums are not split.
    pub(super) fn wide_clusters(&self, device: &GemmDevice) -> u64 {
        clusters_at_once(self.splits, device)
    }

    /// About how many cycles `items` tiles of pixels take, where the products of a tile of filters take `multiplying` and what
    /// is made of them `finishing`, and `alone` is what nothing overlaps with. Of warpgroups that alternate one multiplies while the other
    /// does all else, so two tiles take what one takes from its first product to its last result, or the products of both, or their patches.
    pub(super) fn wide_cost(
        &self,
        device: &GemmDevice,
        items: u64,
        [multiplying, finishing, alone]: [u64; 3],
    ) -> Option<u64> {
        let g = &self.geometry;
        let stages = g.stages;
        let most_stages = stages.div_ceil(self.splits);
        let of_block = multiplying * u64::from(most_stages) / u64::from(stages);
        let exchange = if self.splits > 1 { EXCHANGE_CYCLES } else { 0 };
        let tile = of_block + finishing / u64::from(self.splits) + alone + exchange;
        let [one, two] = g.wide_rounds(self.format, self.splits, device, items)?;
        let alternating = (one < two).then(|| self.alternating_rings(device, items));
        if let Some(rings) = alternating.flatten() {
            let tiles = items.checked_mul(g.wide_sets(1).into())?;
            let rounds = tiles.div_ceil(device.multiprocessors.into());
            let bytes = u64::from(stages) * u64::from(g.stage_bytes(self.format.parts));
            let filling = u64::from(rings.filling_warps());
            let copying = bytes * u64::from(PATCH_WARPS) / (COPIED_PER_CYCLE * filling);
            let bound = of_block.max(copying);
            let others = (rounds - 1).checked_mul(bound.max(tile / 2))?;
            return others.checked_add(tile);
        }
        Some(one.min(two).checked_mul(tile)? / 100)
    }
}
