//! The pipelines of a block of warp-specialized tiles, and the map of its shared memory.

use super::super::ImplicitGemmGeometry;
use super::block::{
    HALO_WARPS, STAGED_K_VECTOR_WORDS, STAGED_TILE_WORDS, TILE_SUMS, WARPGROUPS, WARPS,
};
use crate::WARP_THREADS;
use crate::mode::mode;
use crate::pipeline::Skip;

mode! {
    /// How long filters stay in their pipeline stages.
    pub Residency {
        /// Filters are loaded for each tile of pixels.
        STREAMED = 0,
        /// There is a stage for each of the block's MMA batches, so filters are loaded once and stay.
        RESIDENT = 1,
    }
}

impl Residency {
    /// Whether filters stay.
    #[must_use]
    #[inline(always)]
    pub const fn is_resident(self) -> bool {
        self.0 != Self::STREAMED.0
    }
}

mode! {
    /// How the consumer warpgroups of a block share its tiles.
    pub Schedule {
        /// Both warpgroups work on the same pixels, each on a tile of filters or on half of the pixels.
        COOPERATIVE = 0,
        /// Each warpgroup has every second tile of pixels, and one runs its epilogue while the other
        /// multiplies. The block has one tile of filters.
        PING_PONG = 1,
    }
}

impl Schedule {
    /// Whether the warpgroups take turns.
    #[must_use]
    #[inline(always)]
    pub const fn is_ping_pong(self) -> bool {
        self.0 != Self::COOPERATIVE.0
    }

    /// The binary logarithm of the warpgroups that take turns.
    #[must_use]
    #[inline(always)]
    pub const fn shift(self) -> u32 {
        self.0
    }
}

/// The mainloop of a block: its tiles, schedule and pipeline stages.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MainloopConfig {
    /// Tiles of a block: 1 or 2.
    pub tiles: u32,
    /// Blocks of a cluster that share the K blocks of these tiles: 1, 2 or 4.
    pub split_k: u32,
    /// Halo stages.
    pub halos: u32,
    /// Filter stages.
    pub filters: u32,
    /// How long filters stay in their stages.
    pub residency: Residency,
    /// How the warpgroups share the tiles.
    pub schedule: Schedule,
    /// Staging buffers of each converting producer warp; 0 where the producer does not convert.
    pub staged: u32,
    /// The index of the staging buffers' first barrier.
    pub staged_barrier: u32,
    /// Offset of the staging buffers in shared memory, in bytes.
    pub staged_at: u32,
    /// Distance of the staging buffers, in bytes.
    pub staged_bytes: u32,
    /// The halo stages of a tile.
    pub halo_skip: Skip,
    /// The filter stages of a tile.
    pub filter_skip: Skip,
}

/// Byte offsets of the parts of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarpSpecializedLayout {
    /// Coordinates of tiles of pixels, which the producers of halo tiles pass on to the consumers, and the
    /// work of the block.
    pub coords: u32,
    /// For each step of a K block, the distance of its first K-vector from the base of a pixel in the halo
    /// tile.
    pub offsets: u32,
    /// For each pixel, its packed coordinates in the tile; [`super::super::OUTSIDE`] for an unused one.
    pub pixels: u32,
    /// For each pixel, its offset in the output plane from the tile's first pixel.
    pub positions: u32,
    /// For each K-vector of a halo tile of planes, the word offset of its source in the reformatted input
    /// from the halo tile's first; for each staged tile of an NHWC halo tile, source and target of its copy.
    pub sources: u32,
    /// Bias, reciprocal scale, gain and shift of each filter.
    pub channels: u32,
    /// Barriers: `full` and `empty` of each pipeline stage. With split-K, `exchange_full` and
    /// `exchange_empty` of each consumer warp. With ping-pong, one for each warpgroup, for which the
    /// warpgroup waits before it multiplies. Last, one for each staging buffer.
    pub barriers: u32,
    /// Rows of results, for each consumer warp.
    pub results: u32,
    /// With split-K, accumulators from other blocks.
    pub exchange: u32,
    /// The filters.
    pub filters: u32,
    /// The halo tiles.
    pub halos: u32,
    /// The staging buffers of f32.
    pub staged: u32,
    /// The end.
    pub end: u32,
}

impl MainloopConfig {
    /// Barriers of a block.
    #[must_use]
    pub const fn barriers(&self) -> u32 {
        self.barriers_of_stages() + HALO_WARPS * self.staged
    }

    /// Barriers without those of the staging buffers.
    pub(super) const fn barriers_of_stages(&self) -> u32 {
        let stages = 2 * (self.halos + self.filters);
        if self.split_k > 1 {
            stages + 2 * WARPS
        } else {
            stages + WARPGROUPS * self.schedule.code()
        }
    }

    /// Whether a halo stage is released as soon as its MMAs are complete, instead of when the MMAs of the
    /// next stage have started. This applies to two halo stages with a converting producer.
    #[must_use]
    #[inline(always)]
    pub const fn releases_early(&self) -> bool {
        self.halos == 2 && self.staged > 0
    }

    /// Consumer warps of a pipeline stage.
    #[must_use]
    #[inline(always)]
    pub const fn consumer_warps(&self) -> u32 {
        WARPS >> self.schedule.shift()
    }

    /// Producer warps of halo tiles that work at the same time: one stage is being read.
    #[must_use]
    pub const fn producer_warps(&self) -> u32 {
        if self.halos > HALO_WARPS {
            HALO_WARPS
        } else {
            self.halos - 1
        }
    }

    /// The part of the kernel's label that says whether a warpgroup has half or all of a tile's pixels.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        if self.shares_tile() {
            "halves"
        } else {
            "whole"
        }
    }

    /// Whether the warpgroups share a tile, half of its pixels for each.
    #[must_use]
    pub const fn shares_tile(&self) -> bool {
        self.tiles == 1 && !self.schedule.is_ping_pong()
    }

    /// Warps of a block that own results.
    #[must_use]
    #[inline(always)]
    pub const fn finishing_warps(&self) -> u32 {
        // `split_k` is a power of two. A division would check for 0.
        WARPS >> self.split_k.trailing_zeros()
    }

    /// Accumulators that the block receives: for each lane of its owner warps, from each other block.
    #[must_use]
    pub const fn exchanged(&self) -> u32 {
        self.finishing_warps() * (self.split_k - 1) * self.sums() * WARP_THREADS
    }

    /// Accumulators of a lane.
    #[must_use]
    #[inline(always)]
    pub const fn sums(&self) -> u32 {
        self.tiles * TILE_SUMS
    }
}

impl ImplicitGemmGeometry {
    /// Words of the table of sources: one for each K-vector of a halo tile of planes, [`STAGED_TILE_WORDS`]
    /// for each staged tile, and [`STAGED_K_VECTOR_WORDS`] for each K-vector of a staged tile of dense f32.
    #[must_use]
    pub const fn source_words(&self) -> u32 {
        if self.staged_tiles.of_k_block == 0 {
            return self.halo_k_vectors;
        }
        let k_vectors = if self.k_vectors.loader.is_dense_f32() {
            self.staged_k_vectors()
        } else {
            0
        };
        STAGED_TILE_WORDS * self.staged_tiles.of_k_block + STAGED_K_VECTOR_WORDS * k_vectors
    }
}
