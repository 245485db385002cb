//! The halo tile: the part of the reformatted input that a tile's pixels touch.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{cp_async, thread};
use launch_config::implicit_gemm::{BLOCK_THREADS, K_VECTOR_WORDS};

use super::format::Format;
use super::tables::Tables;
use super::tile_coord::TileCoord;
use crate::parts::unroll::unroll;

/// The stages of the halo tile in shared memory, and its source.
#[derive(Clone, Copy)]
pub(super) struct Halo<'a> {
    pub(super) tables: Tables<'a>,
    /// Both stages.
    pub(super) buffers: Shared<u32>,
    /// The K-vectors of all samples and groups.
    pub(super) reformatted: Global<u32>,
    pub(super) group: u32,
}

impl Halo<'_> {
    /// Starts to copy the halo tile of a K block into a buffer.
    #[inline(always)]
    pub(super) unsafe fn start<F: Format>(&self, place: &TileCoord, k_block: u32, buffer: u32) {
        let g = self.tables.g;
        let conv = &g.conv;
        let parts = F::OPERANDS.parts;
        let plane_k_vectors = g.plane_k_vectors() as usize;
        let first = (place.z * conv.stride_d * g.reformatted_h + place.p * conv.stride_h)
            * g.row_k_vectors()
            + place.q;
        let of_group = place.sample as usize * conv.groups as usize + self.group as usize;
        let first_plane = k_block * g.k_block_planes;
        let part = (of_group * g.planes as usize + first_plane as usize) * parts as usize;
        let from = part * plane_k_vectors + first as usize;
        let buffer = buffer * (g.k_block_bytes(parts) / 4);
        // Filters beyond the last channel are 0, so any plane will do: the last plane is repeated.
        let planes = g.k_block_planes.min(g.planes - first_plane);
        let mut k_vector = thread::thread_idx_x();
        while k_vector < g.halo_k_vectors {
            let mut source =
                (from + self.tables.sources.load(k_vector) as usize) * K_VECTOR_WORDS as usize;
            let mut target = buffer + k_vector * K_VECTOR_WORDS;
            let mut local = 0;
            while local < g.k_block_planes {
                unroll!(3, |part| {
                    if (part as u32) < parts {
                        let at = source + part * plane_k_vectors * K_VECTOR_WORDS as usize;
                        cp_async::copy16(self.buffers.addr(target), self.reformatted, at);
                        target += g.halo_k_vectors * K_VECTOR_WORDS;
                    }
                });
                local += 1;
                if local < planes {
                    source += parts as usize * plane_k_vectors * K_VECTOR_WORDS as usize;
                }
            }
            k_vector += BLOCK_THREADS;
        }
    }
}
