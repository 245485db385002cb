//! The pipelines of a block of warp-specialized tiles, and where all lies in its shared memory.

use super::block::{HALO_WARPS, TILE_SUMS, WARPGROUPS, WARPS};
use crate::WARP_THREADS;

/// The pipeline stages of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MainloopConfig {
    /// Tiles of a block: 1 or 2.
    pub tiles: u32,
    /// Blocks of a cluster that split the sums of these tiles: 1, 2 or 4.
    pub split_k: u32,
    /// Pipeline stages for halo tiles.
    pub halos: u32,
    /// Pipeline stages for filters.
    pub filters: u32,
    /// 1 if these are pipeline stages for all of a block's filters, which come once and stay, else 0.
    pub stay: u32,
    /// 1 if the warpgroups alternate, each with every second tile of pixels, so that one finishes its tile
    /// while the other multiplies, else 0. Then a block has one tile of filters.
    pub ping_pong: u32,
    /// Pipeline stages of each warp that rounds for pieces of f32; 0 where nothing is converted in the
    /// producer.
    pub staged: u32,
    /// The first of their barriers.
    pub staged_barrier: u32,
    /// Where they are in shared memory, in bytes.
    pub staged_at: u32,
    /// From one to the next, in bytes.
    pub staged_bytes: u32,
}

/// Bytes of shared memory at which its parts start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarpSpecializedLayout {
    /// For each step of a K block, how far its first K-vector of the halo tile is from a pixel's.
    pub offsets: u32,
    /// For each pixel, its place in the tile, in one word; [`super::super::OUTSIDE`] for one that is not
    /// used.
    pub pixels: u32,
    /// For each pixel, its place in the output plane, from the tile's first.
    pub positions: u32,
    /// For each K-vector of a halo tile of planes, the first word of its K-vector of the reformatted input,
    /// from the halo tile's first; for each piece of one of lines, where its copy starts and ends.
    pub sources: u32,
    /// Four numbers for each filter.
    pub channels: u32,
    /// Two barriers for each pipeline stage: filled, free. Where sums are split, two for each warp that
    /// multiplies, too: come, taken. Where warpgroups alternate, one for each: it may begin. Behind them one
    /// for each staged piece: it has come.
    pub barriers: u32,
    /// Results, for each warp.
    pub results: u32,
    /// Where sums are split, those of other blocks.
    pub exchange: u32,
    /// The filters.
    pub filters: u32,
    /// The halo tiles.
    pub halos: u32,
    /// Pieces of f32 that are converted in the producer.
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

    /// Those of all but staged pieces.
    pub(super) const fn barriers_of_stages(&self) -> u32 {
        let stages = 2 * (self.halos + self.filters);
        if self.split_k > 1 {
            stages + 2 * WARPS
        } else {
            stages + WARPGROUPS * self.ping_pong
        }
    }

    /// Whether a pipeline stage with a halo tile is free as soon as its products are over, not when those
    /// with the next one have begun: there are two, and what is loaded to them is rounded.
    #[must_use]
    #[inline(always)]
    pub const fn releases_early(&self) -> bool {
        self.halos == 2 && self.staged > 0
    }

    /// Warps that multiply what is in a pipeline stage.
    #[must_use]
    #[inline(always)]
    pub const fn consumer_warps(&self) -> u32 {
        WARPS >> self.ping_pong
    }

    /// Warps that fill pipeline stages with halo tiles at a time: one pipeline stage is read.
    #[must_use]
    pub const fn producer_warps(&self) -> u32 {
        if self.halos > HALO_WARPS {
            HALO_WARPS
        } else {
            self.halos - 1
        }
    }

    /// What kernels are called whose warpgroups have so many of a tile's pixels.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        if self.tiles == 1 && self.ping_pong == 0 {
            "halves"
        } else {
            "whole"
        }
    }

    /// Warps whose results a block finishes.
    #[must_use]
    #[inline(always)]
    pub const fn finishing_warps(&self) -> u32 {
        // Splits are powers of two; a division would have to ask whether they are 0.
        WARPS >> self.split_k.trailing_zeros()
    }

    /// Sums that other blocks send: those of each lane of the warps that finish, from each other block.
    #[must_use]
    pub const fn exchanged(&self) -> u32 {
        self.finishing_warps() * (self.split_k - 1) * self.sums() * WARP_THREADS
    }

    /// Sums of a lane.
    #[must_use]
    #[inline(always)]
    pub const fn sums(&self) -> u32 {
        self.tiles * TILE_SUMS
    }
}
