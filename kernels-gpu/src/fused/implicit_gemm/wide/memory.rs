//! The shared memory of a block, and the tables in it.

use cuda_std::mbarrier::Barrier;
use cuda_std::shared::{self, Shared};
use cuda_std::{async_proxy, thread};
use op_spec::launch::implicit_gemm::wide::{
    BLOCK_THREADS, WARPS, WRITTEN_WORDS, WideRings, chain_bytes,
};
use op_spec::launch::implicit_gemm::{CELL_WORDS, GemmGeometry, OperandFormat, WIDE};

use super::super::tables::{PixelPlace, has_lines, line_shift, offset, rounds, source};
use super::format::WideFormat;
use super::rings::Ring;
use super::{WARPGROUP_WARPS, lines};
use crate::parts::index::div_rem;

/// Views of what `WideLayout` describes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) offsets: Shared<u32>,
    pub(super) pixels: Shared<u32>,
    pub(super) positions: Shared<u32>,
    pub(super) sources: Shared<u32>,
    pub(super) channels: Shared<f32>,
    pub(super) barriers: Shared<u64>,
    pub(super) results: Shared<f32>,
    pub(super) exchange: Shared<f32>,
    pub(super) patches: Shared<u32>,
    pub(super) filters: Shared<u32>,
    pub(super) rings: WideRings,
    /// How values are operands.
    pub(super) format: OperandFormat,
}

impl Memory {
    #[inline(always)]
    pub(super) unsafe fn of(g: &GemmGeometry, rings: WideRings, format: OperandFormat) -> Self {
        let layout = g.wide_layout(format, rings);
        let chain_words = rings.tiles * chain_bytes(format.step_parts()) / 4;
        Self {
            offsets: shared::dynamic(layout.offsets, g.offsets),
            pixels: shared::dynamic(layout.pixels, WIDE.pixels()),
            positions: shared::dynamic(layout.positions, WIDE.pixels()),
            sources: shared::dynamic(layout.sources, g.source_words()),
            channels: shared::dynamic(layout.channels, rings.tiles * WIDE.filters() * CELL_WORDS),
            barriers: shared::dynamic(layout.barriers, rings.barriers()),
            results: shared::dynamic(layout.results, WARPS * WRITTEN_WORDS),
            exchange: shared::dynamic(layout.exchange, rings.exchanged()),
            patches: shared::dynamic(
                layout.patches,
                rings.patches * g.stage_bytes(format.parts) / 4,
            ),
            filters: shared::dynamic(layout.filters, rings.filters * chain_words),
            rings,
            format,
        }
    }

    pub(super) fn patches(&self) -> Ring {
        Ring {
            barriers: self.barriers,
            first: 0,
            slots: self.rings.patches,
            comes_round: 1,
        }
    }

    /// Where warpgroups alternate: `warpgroup` may begin its next tile, as the other one's warps wait for nothing of theirs any more.
    #[inline(always)]
    pub(super) fn may_begin(&self, warpgroup: u32) -> Barrier {
        let slots = 2 * (self.rings.patches + self.rings.filters);
        Barrier::at(self.barriers, slots + warpgroup)
    }

    pub(super) fn filters(&self) -> Ring {
        Ring {
            barriers: self.barriers,
            first: 2 * self.rings.patches,
            slots: self.rings.filters,
            comes_round: 1 - self.rings.stay,
        }
    }

    /// Fills in the tables, and makes the barriers.
    ///
    /// # Safety
    /// All threads of the block call it, and a barrier follows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn prepare<F: WideFormat<64>>(&self, g: &GemmGeometry) {
        let thread = thread::thread_idx_x();
        if thread == 0 {
            let readers = self.rings.readers();
            // Warps may share the boxes of a patch, or round pieces of them; else whoever brings something brings all of it.
            let fillers = if rounds::<F>(g) {
                self.init_staged();
                g.pieces.of_stage
            } else if has_lines::<F>(g, WIDE) {
                lines::sharing_warps(g)
            } else {
                1
            };
            self.patches().init(fillers, readers);
            self.filters().init(1, readers);
            if self.rings.splits > 1 {
                self.init_exchange();
            }
            if self.rings.alternate == 1 {
                self.may_begin(0).init(WARPGROUP_WARPS);
                self.may_begin(1).init(WARPGROUP_WARPS);
            }
        }
        let mut entry = thread;
        while entry < g.offsets {
            self.offsets.store(entry, offset::<F>(g, WIDE, entry));
            entry += BLOCK_THREADS;
        }
        let mut pixel = thread;
        while pixel < WIDE.pixels() {
            let place = PixelPlace::of(g, WIDE, pixel);
            self.pixels.store(pixel, place.coordinates);
            self.positions.store(pixel, place.position);
            pixel += BLOCK_THREADS;
        }
        self.clear_gaps::<F>(g, thread);
        if has_lines::<F>(g, WIDE) {
            lines::find_pieces(g, self.sources, thread);
        } else {
            let mut cell = thread;
            while cell < g.packed_patch_cells() {
                self.sources.store(cell, source(g, WIDE, cell) * CELL_WORDS);
                cell += BLOCK_THREADS;
            }
        }
        async_proxy::fence_shared();
    }

    /// Zeros what nobody brings to a patch: behind its cells, or behind the lines of each box and behind the last box, of all planes of each slot.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn clear_gaps<F: WideFormat<64>>(&self, g: &GemmGeometry, thread: u32) {
        let shift = line_shift::<F>(g, WIDE);
        let (pieces, used, pitch) = if has_lines::<F>(g, WIDE) {
            (g.cells.boxes, g.box_used(), g.box_lines())
        } else {
            (1, g.packed_patch_cells(), g.packed_patch_cells())
        };
        let (of_each, all) = (pitch - used, pieces * pitch);
        let lines = pieces * of_each + g.patch_cells - all;
        let planes = (self.rings.patches * g.stage_planes * self.format.parts) >> shift;
        let cells = lines << shift;
        let mut cell = thread;
        while cell < cells * planes {
            let (plane, of_plane) = div_rem(cell, cells);
            let gap = of_plane >> shift;
            let line = if gap < pieces * of_each {
                let (piece, gap) = div_rem(gap, of_each);
                piece * pitch + used + gap
            } else {
                gap - pieces * of_each + all
            };
            let at = ((plane * g.patch_cells + line) << shift) + of_plane - (gap << shift);
            self.patches.store_vec(at * CELL_WORDS, [0u32; 4]);
            cell += BLOCK_THREADS;
        }
    }
}
