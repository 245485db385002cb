//! The rings of a block of wide tiles, and where all lies in its shared memory.

use super::{PATCH_WARPS, TILE_SUMS, WARPGROUPS, WARPS};
use crate::launch::WARP_THREADS;

/// The slots of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideRings {
    /// Tiles of a block: 1 or 2.
    pub tiles: u32,
    /// Blocks of a cluster that split the sums of these tiles: 1, 2 or 4.
    pub splits: u32,
    /// Slots for patches.
    pub patches: u32,
    /// Slots for filters.
    pub filters: u32,
    /// 1 if these are slots for all of a block's filters, which come once and stay, else 0.
    pub stay: u32,
    /// 1 if the warpgroups alternate, each with every second tile of pixels, so that one finishes its tile while the other multiplies, else 0. Then a block has one tile of
    /// filters.
    pub alternate: u32,
    /// Slots of each warp that rounds for pieces of f32; 0 where nothing is rounded on its way.
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
pub struct WideLayout {
    /// For each step of a stage, how far its first cell of the patch is from a pixel's.
    pub offsets: u32,
    /// For each pixel, its place in the tile, in one word; [`super::super::OUTSIDE`] for one that is not used.
    pub pixels: u32,
    /// For each pixel, its place in the output plane, from the tile's first.
    pub positions: u32,
    /// For each cell of a patch of planes, the first word of its cell of the packed input, from the patch's first; for each piece of one of lines, where its copy starts and ends.
    pub sources: u32,
    /// Four numbers for each filter.
    pub channels: u32,
    /// Two barriers for each slot: filled, free. Where sums are split, two for each warp that multiplies, too: come, taken. Where warpgroups
    /// alternate, one for each: it may begin. Behind them one for each staged piece: it has come.
    pub barriers: u32,
    /// Results, for each warp.
    pub results: u32,
    /// Where sums are split, those of other blocks.
    pub exchange: u32,
    /// The filters.
    pub filters: u32,
    /// The patches.
    pub patches: u32,
    /// Pieces of f32 that are rounded on their way.
    pub staged: u32,
    /// The end.
    pub end: u32,
}

impl WideRings {
    /// Barriers of a block.
    #[must_use]
    pub const fn barriers(&self) -> u32 {
        self.barriers_of_slots() + PATCH_WARPS * self.staged
    }

    /// Those of all but staged pieces.
    pub(super) const fn barriers_of_slots(&self) -> u32 {
        let slots = 2 * (self.patches + self.filters);
        if self.splits > 1 {
            slots + 2 * WARPS
        } else {
            slots + WARPGROUPS * self.alternate
        }
    }

    /// Whether a slot with a patch is free as soon as its products are over, not when those with the next one have begun: there are two, and what is brought to them is rounded.
    #[must_use]
    #[inline(always)]
    pub const fn is_freed_at_once(&self) -> bool {
        self.patches == 2 && self.staged > 0
    }

    /// Warps that multiply what is in a slot.
    #[must_use]
    #[inline(always)]
    pub const fn readers(&self) -> u32 {
        WARPS >> self.alternate
    }

    /// Warps that fill slots with patches at a time: one slot is read.
    #[must_use]
    pub const fn filling_warps(&self) -> u32 {
        if self.patches > PATCH_WARPS {
            PATCH_WARPS
        } else {
            self.patches - 1
        }
    }

    /// What kernels are called whose warpgroups have so many of a tile's pixels.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        if self.tiles == 1 && self.alternate == 0 {
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
        WARPS >> self.splits.trailing_zeros()
    }

    /// Sums that other blocks send: those of each lane of the warps that finish, from each other block.
    #[must_use]
    pub const fn exchanged(&self) -> u32 {
        self.finishing_warps() * (self.splits - 1) * self.sums() * WARP_THREADS
    }

    /// Sums of a lane.
    #[must_use]
    #[inline(always)]
    pub const fn sums(&self) -> u32 {
        self.tiles * TILE_SUMS
    }
}
