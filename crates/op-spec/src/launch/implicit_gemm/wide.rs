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

use super::{
    CELL_BYTES, CELL_VALUES, CHAIN_STEPS, GemmConfig, GemmDevice, GemmGeometry, STEP_CELLS, WIDE,
};
use crate::launch::WARP_THREADS;

/// Halves of a tile's pixels.
pub const HALVES: u32 = 2;

/// Pixels of one of them.
pub const HALF_PIXELS: u32 = WIDE.pixels() / HALVES;

/// Warps that multiply.
pub const WARPS: u32 = 8;

/// Warps that bring patches, beside one that brings filters.
pub const PATCH_WARPS: u32 = 3;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = (WARPS + 1 + PATCH_WARPS) * WARP_THREADS;

/// Filters of a warp.
pub const WARP_FILTERS: u32 = 16;

/// Pixels of which a warp has the results in shared memory at a time.
pub const WRITTEN_PIXELS: u32 = 64;

/// Floats from one filter's results there to the next one's: eight banks more than pixels, so that four
/// rows of two floats for each of four lanes touch all banks once.
pub const WRITTEN_PITCH: u32 = WRITTEN_PIXELS + 8;

/// Bytes of the filters of one step of a tile, of each part.
pub const STEP_BYTES: u32 = WIDE.filters() * STEP_CELLS * CELL_BYTES;

/// Fewer slots than this leave nothing to fill while others are read.
const FEWEST_SLOTS: u32 = 2;

/// More filter slots than this bring nothing.
const MOST_FILTER_SLOTS: u32 = 8;

/// As many patch slots have one to read, and one for each warp that brings patches.
const MOST_PATCH_SLOTS: u32 = PATCH_WARPS + 1;

/// What half a tile for each warpgroup costs more for each filter than whole ones, in hundredths: patches are brought for
/// half as many filters.
const ONE_TILE_COST: u64 = 115;

/// The slots of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideRings {
    /// Tiles of a block: 1 or 2.
    pub tiles: u32,
    /// Slots for patches.
    pub patches: u32,
    /// Slots for filters.
    pub filters: u32,
}

/// Bytes of shared memory at which its parts start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideLayout {
    /// For each step of a stage, how far its first cell of the patch is from a pixel's.
    pub offsets: u32,
    /// For each pixel, its place in the tile, in one word; [`super::OUTSIDE`] for one that is not used.
    pub pixels: u32,
    /// For each pixel, its place in the output plane, from the tile's first.
    pub positions: u32,
    /// For each cell of a patch, the first word of its cell of the packed input, from the patch's first.
    pub sources: u32,
    /// Four numbers for each filter.
    pub channels: u32,
    /// Two barriers for each slot: filled, free.
    pub barriers: u32,
    /// Results, for each warp.
    pub results: u32,
    /// The patches.
    pub patches: u32,
    /// The filters.
    pub filters: u32,
    /// The end.
    pub end: u32,
}

impl GemmGeometry {
    /// Sets of filters for blocks of `tiles` tiles.
    #[must_use]
    pub const fn wide_sets(&self, tiles: u32) -> u32 {
        self.conv.groups * self.filter_tiles.div_ceil(tiles)
    }

    /// As many slots as there is room for, if it is enough.
    #[must_use]
    pub const fn wide_rings(&self, parts: u32, tiles: u32, shared_bytes: u32) -> Option<WideRings> {
        let mut rings = WideRings {
            tiles,
            patches: FEWEST_SLOTS,
            filters: FEWEST_SLOTS,
        };
        if self.wide_layout(parts, rings).end > shared_bytes {
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
                && self.wide_layout(parts, filters).end <= shared_bytes;
            let more_patches = rings.patches < MOST_PATCH_SLOTS
                && self.wide_layout(parts, patches).end <= shared_bytes;
            if more_patches && (rings.filters > rings.patches + 1 || !more_filters) {
                rings = patches;
            } else if more_filters {
                rings = filters;
            } else {
                return Some(rings);
            }
        }
    }

    /// The time that `items` tiles of pixels take in blocks of one tile and of two, in hundredths of one tile of filters; more than
    /// anything where there are none of two: for split values, whose sums leave registers for one, and where shared memory has
    /// no room.
    pub(super) fn wide_rounds(
        &self,
        parts: u32,
        device: &GemmDevice,
        items: u64,
    ) -> Option<[u64; 2]> {
        let rounds = |tiles| {
            let blocks = items.checked_mul(self.wide_sets(tiles).into())?;
            Some(blocks.div_ceil(device.multiprocessors.into()))
        };
        if parts > 1 || self.wide_rings(parts, 2, device.shared_bytes).is_none() {
            return Some([rounds(1)?.checked_mul(100)?, u64::MAX]);
        }
        let one = rounds(1)?.checked_mul(ONE_TILE_COST)?;
        let two = rounds(2)?.checked_mul(200)?;
        Some([one, two])
    }

    /// Where the parts of a block's shared memory lie, in bytes.
    #[must_use]
    pub const fn wide_layout(&self, parts: u32, rings: WideRings) -> WideLayout {
        let pixels = (4 * self.offsets).next_multiple_of(8);
        let positions = pixels + 4 * WIDE.pixels();
        let sources = positions + 4 * WIDE.pixels();
        let channels = (sources + 4 * self.patch_cells).next_multiple_of(CELL_BYTES);
        let barriers = channels + rings.tiles * WIDE.filters() * 4 * 4;
        let results =
            (barriers + 2 * 8 * (rings.patches + rings.filters)).next_multiple_of(CELL_BYTES);
        let patches = results + WARPS * WARP_FILTERS * WRITTEN_PITCH * 4;
        let filters = patches + rings.patches * self.stage_bytes(parts);
        WideLayout {
            offsets: 0,
            pixels,
            positions,
            sources,
            channels,
            barriers,
            results,
            patches,
            filters,
            end: filters + rings.filters * rings.tiles * chain_bytes(parts),
        }
    }
}

/// Bytes of the filters of a chain of one tile.
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

impl GemmConfig {
    /// The slots of a block of the product on a device, if its tile is wide.
    #[must_use]
    pub fn wide_rings(&self, device: &GemmDevice) -> Option<WideRings> {
        if !self.tile.is_wide() {
            return None;
        }
        let tiles = self.wide_tiles(device);
        (self.geometry).wide_rings(self.format.parts, tiles, device.shared_bytes)
    }

    /// Tiles of a block, for as many samples as there are. Results do not depend on it.
    pub(super) fn wide_tiles(&self, device: &GemmDevice) -> u32 {
        let g = &self.geometry;
        match g.wide_rounds(self.format.parts, device, g.items()) {
            Some([one, two]) if two <= one => 2,
            _ => 1,
        }
    }

    /// About how many cycles `items` tiles of pixels take, of which one tile of filters alone takes `tile`.
    pub(super) fn wide_cost(&self, device: &GemmDevice, items: u64, tile: u64) -> Option<u64> {
        let rounds = (self.geometry).wide_rounds(self.format.parts, device, items)?;
        Some(rounds.into_iter().min()?.checked_mul(tile)? / 100)
    }
}
