//! The part of the image that a tile's pixels touch.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{cp_async, thread};
use op_spec::launch::implicit_gemm::{BLOCK_THREADS, VECTOR_WORDS};

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
    /// The vectors of all samples and groups.
    pub(super) image: Global<u32>,
    pub(super) group: u32,
}

impl Patch<'_> {
    /// Starts to copy the patch of a stage into a buffer.
    #[inline(always)]
    pub(super) unsafe fn start<F: Format>(&self, place: &Place, stage: u32, buffer: u32) {
        let g = self.tables.g;
        let conv = &g.conv;
        let parts = F::OPERANDS.parts;
        let plane_vectors = g.plane_vectors() as usize;
        let first = (place.z * conv.stride_d * g.image_h + place.p * conv.stride_h)
            * g.row_vectors()
            + place.q;
        let of_group = place.sample as usize * conv.groups as usize + self.group as usize;
        let chunk = stage * g.stage_chunks;
        let plane = (of_group * g.chunks as usize + chunk as usize) * parts as usize;
        let from = plane * plane_vectors + first as usize;
        let buffer = buffer * (g.stage_bytes(parts) / 4);
        // Filters of channels that do not exist are 0, whatever they meet: the last ones again.
        let chunks = g.stage_chunks.min(g.chunks - chunk);
        let mut vector = thread::thread_idx_x();
        while vector < g.patch_vectors {
            let mut source =
                (from + self.tables.sources.load(vector) as usize) * VECTOR_WORDS as usize;
            let mut target = buffer + vector * VECTOR_WORDS;
            let mut local = 0;
            while local < g.stage_chunks {
                unroll!(2, |part| {
                    if (part as u32) < parts {
                        let at = source + part * plane_vectors * VECTOR_WORDS as usize;
                        cp_async::copy16(self.buffers.addr(target), self.image, at);
                        target += g.patch_vectors * VECTOR_WORDS;
                    }
                });
                local += 1;
                if local < chunks {
                    source += parts as usize * plane_vectors * VECTOR_WORDS as usize;
                }
            }
            vector += BLOCK_THREADS;
        }
    }
}
