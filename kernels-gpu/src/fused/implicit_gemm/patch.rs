//! The part of the packed input that a tile's pixels touch.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{cp_async, thread};
use op_spec::launch::implicit_gemm::{BLOCK_THREADS, CELL_WORDS};

use super::format::Format;
use super::place::Place;
use super::tables::Tables;
use crate::parts::unroll::unroll;

/// The patch in shared memory, and where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Patch<'a> {
    pub(super) tables: Tables<'a>,
    /// Both buffers.
    pub(super) buffers: Shared<u32>,
    /// The cells of all samples and groups.
    pub(super) packed: Global<u32>,
    pub(super) group: u32,
}

impl Patch<'_> {
    /// Starts to copy the patch of a stage into a buffer.
    #[inline(always)]
    pub(super) unsafe fn start<F: Format>(&self, place: &Place, stage: u32, buffer: u32) {
        let g = self.tables.g;
        let conv = &g.conv;
        let parts = F::OPERANDS.parts;
        let plane_cells = g.plane_cells() as usize;
        let first = (place.z * conv.stride_d * g.packed_h + place.p * conv.stride_h)
            * g.row_cells()
            + place.q;
        let of_group = place.sample as usize * conv.groups as usize + self.group as usize;
        let first_plane = stage * g.stage_planes;
        let part = (of_group * g.planes as usize + first_plane as usize) * parts as usize;
        let from = part * plane_cells + first as usize;
        let buffer = buffer * (g.stage_bytes(parts) / 4);
        // Filters of channels that do not exist are 0, whatever they meet: the last ones again.
        let planes = g.stage_planes.min(g.planes - first_plane);
        let mut cell = thread::thread_idx_x();
        while cell < g.patch_cells {
            let mut source = (from + self.tables.sources.load(cell) as usize) * CELL_WORDS as usize;
            let mut target = buffer + cell * CELL_WORDS;
            let mut local = 0;
            while local < g.stage_planes {
                unroll!(3, |part| {
                    if (part as u32) < parts {
                        let at = source + part * plane_cells * CELL_WORDS as usize;
                        cp_async::copy16(self.buffers.addr(target), self.packed, at);
                        target += g.patch_cells * CELL_WORDS;
                    }
                });
                local += 1;
                if local < planes {
                    source += parts as usize * plane_cells * CELL_WORDS as usize;
                }
            }
            cell += BLOCK_THREADS;
        }
    }
}
