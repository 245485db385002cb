//! The work of a block, and of its warps.

use cuda_std::{opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{WARP_FILTERS, WARPS};
use launch_config::implicit_gemm::{ImplicitGemmGeometry, WARP_SPECIALIZED};

use crate::parts::index::div_rem;

/// Filters of a tile for each of two neighbouring outputs in depth.
const HALF_FILTERS: u32 = WARP_SPECIALIZED.filters() / 2;
const _: () = assert!(HALF_FILTERS.is_multiple_of(WARP_FILTERS));

/// Warps of a warpgroup.
pub(super) const WARPGROUP_WARPS: u32 = WARPS / 2;

/// Returns the index of the warp in its block. It is computed at each call; a kept index would take a
/// register.
///
/// # Safety
/// All lanes of the warp make this call.
#[inline(always)]
pub(super) unsafe fn warp_of_block() -> u32 {
    opaque::uniform(opaque::to_compiler(thread::thread_idx_x()) / WARP_THREADS)
}

/// The work of a block: its tiles of filters, one tile of pixels after another, and its share of the K
/// blocks.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) g: &'a ImplicitGemmGeometry,
    pub(super) group: u32,
    /// The first of the block's tiles of filters, within the group.
    pub(super) filter_tile: u32,
    pub(super) first_work_tile: u32,
    pub(super) work_tile_step: u32,
    /// Blocks of the cluster that share the K blocks of a tile.
    pub(super) split_k: u32,
}

impl<'a> Work<'a> {
    /// The work of this block. Each block has `tiles` tiles of filters, and `split_k` blocks share a tile.
    #[inline(always)]
    pub(super) unsafe fn of(g: &'a ImplicitGemmGeometry, tiles: u32, split_k: u32) -> Self {
        let sets = g.warp_specialized_sets(tiles);
        let shift = split_k.trailing_zeros();
        let (first_work_tile, set) = div_rem(thread::block_idx_x() >> shift, sets);
        let (work_tile_step, _) = div_rem(thread::grid_dim_x() >> shift, sets);
        let (group, set) = div_rem(set, g.warp_specialized_sets_of_group(tiles));
        Self {
            g,
            group,
            filter_tile: set * tiles,
            first_work_tile,
            work_tile_step,
            split_k,
        }
    }

    /// Returns the number of the block's tiles of pixels.
    #[inline(always)]
    pub(super) unsafe fn tiles(&self) -> u32 {
        let step = self.work_tile_step;
        let from_first = self.g.work_tiles() as u32 - self.first_work_tile;
        let (tiles, _) = div_rem(from_first + step - 1, step);
        tiles
    }

    /// Returns the output channels of a warp's filters. `filter` is the first of them among the block's
    /// filters.
    #[inline(always)]
    pub(super) fn output_channels(&self, filter: u32) -> OutputChannels {
        let of_all = self.g.conv.group_k;
        let output = which_output(self.g, filter);
        let of_group =
            self.filter_tile * WARP_SPECIALIZED.filters() + filter - output * HALF_FILTERS;
        OutputChannels {
            channel: self.group * of_all + of_group,
            filters: of_all.saturating_sub(of_group).min(WARP_FILTERS),
        }
    }

    /// Returns the block's first K block, and the end of its K blocks. They are computed at each call, to
    /// save registers.
    #[inline(always)]
    pub(super) fn k_blocks(&self) -> [u32; 2] {
        let split_k = opaque::to_compiler(self.split_k);
        self.g.warp_specialized_k_blocks(rank(split_k), split_k)
    }
}

/// The output channels of a warp's filters.
#[derive(Clone, Copy)]
pub(super) struct OutputChannels {
    /// The first output channel.
    pub(super) channel: u32,
    /// The number of output channels.
    pub(super) filters: u32,
}

/// Returns which of two neighbouring outputs in depth filter `filter` of a block computes. A block with two
/// outputs has one tile.
#[inline(always)]
pub(super) fn which_output(g: &ImplicitGemmGeometry, filter: u32) -> u32 {
    if g.outputs_d == 1 {
        0
    } else {
        filter / HALF_FILTERS
    }
}

/// Returns the share of warp `warp` in a block of `tiles` tiles of filters: its first filter among the
/// block's filters, and its first half of the pixels.
#[inline(always)]
pub(super) fn share_of(warp: u32, tiles: u32, has_half: bool) -> (u32, u32) {
    let warpgroup = warp / WARPGROUP_WARPS;
    let of_tile = warp % WARPGROUP_WARPS * WARP_FILTERS;
    if has_half {
        (of_tile, warpgroup)
    } else {
        (
            warpgroup * (tiles - 1) * WARP_SPECIALIZED.filters() + of_tile,
            0,
        )
    }
}

/// The rank of the block among the `split_k` blocks that share a tile.
#[inline(always)]
pub(super) fn rank(split_k: u32) -> u32 {
    thread::block_idx_x() & (split_k - 1)
}
