//! What a block does before its first tile: it fills in the tables in shared memory, initialises the barriers
//! and clears the memory that no producer writes.

use cuda_std::{async_proxy, thread};
use launch_config::implicit_gemm::sm90::BLOCK_THREADS;
use launch_config::implicit_gemm::{ImplicitGemmGeometry, K_VECTOR_WORDS, WARP_SPECIALIZED};

use super::super::tables::{PixelCoord, converts, has_nhwc_tile, offset, source, span_shift};
use super::format::WarpSpecializedFormat;
use super::{Memory, WARPGROUP_WARPS, Work, dense_f32, nhwc_tile};
use crate::parts::index::div_rem;

impl Memory {
    /// Fills in the tables and initialises the barriers.
    ///
    /// # Safety
    /// All threads of the block call it, and a barrier follows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn prepare<F: WarpSpecializedFormat<64>>(&self, work: &Work<'_>) {
        let g = work.g;
        let thread = thread::thread_idx_x();
        if thread == 0 {
            self.store_work(work);
            let consumer_warps = self.mainloop.consumer_warps();
            // Warps may share the boxes of a halo tile, or convert staged tiles of it; else one producer
            // loads all of it.
            let producers = if converts::<F>(g) {
                self.init_staged();
                g.staged_tiles.of_k_block
            } else if has_nhwc_tile::<F>(g, WARP_SPECIALIZED) {
                nhwc_tile::sharing_warps(g)
            } else {
                1
            };
            self.halos().init(producers, consumer_warps);
            self.filters().init(1, consumer_warps);
            if self.mainloop.split_k > 1 {
                self.init_exchange();
            }
            if self.mainloop.schedule.is_ping_pong() {
                self.order_barrier(0).init(WARPGROUP_WARPS);
                self.order_barrier(1).init(WARPGROUP_WARPS);
            }
        }
        let mut entry = thread;
        while entry < g.offsets {
            self.offsets
                .store(entry, offset::<F>(g, WARP_SPECIALIZED, entry));
            entry += BLOCK_THREADS;
        }
        let mut pixel = thread;
        while pixel < WARP_SPECIALIZED.pixels() {
            let place = PixelCoord::of(g, WARP_SPECIALIZED, pixel);
            self.pixels.store(pixel, place.coordinates);
            self.positions.store(pixel, place.position);
            pixel += BLOCK_THREADS;
        }
        self.clear_gaps::<F>(g, thread);
        if F::READS_DENSE {
            dense_f32::find_staged_tiles(g, self.sources, thread);
        } else if has_nhwc_tile::<F>(g, WARP_SPECIALIZED) {
            nhwc_tile::find_staged_tiles(g, self.sources, thread);
        } else {
            let mut k_vector = thread;
            while k_vector < g.reformatted_halo_k_vectors() {
                self.sources.store(
                    k_vector,
                    source(g, WARP_SPECIALIZED, k_vector) * K_VECTOR_WORDS,
                );
                k_vector += BLOCK_THREADS;
            }
        }
        async_proxy::fence_shared();
    }

    /// Zeros the parts of all planes of each stage that no producer loads: those behind the K-vectors of a
    /// halo tile, or behind the pixels of each box and behind the last box.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn clear_gaps<F: WarpSpecializedFormat<64>>(
        &self,
        g: &ImplicitGemmGeometry,
        thread: u32,
    ) {
        let shift = span_shift::<F>(g, WARP_SPECIALIZED);
        let (staged_tiles, used, pitch) = if has_nhwc_tile::<F>(g, WARP_SPECIALIZED) {
            (g.k_vectors.boxes, g.box_used(), g.box_pixels())
        } else {
            (
                1,
                g.reformatted_halo_k_vectors(),
                g.reformatted_halo_k_vectors(),
            )
        };
        let (of_each, all) = (pitch - used, staged_tiles * pitch);
        let lines = staged_tiles * of_each + g.halo_k_vectors - all;
        let planes = (self.mainloop.halos * g.k_block_planes * self.format.parts) >> shift;
        let k_vectors = lines << shift;
        let mut k_vector = thread;
        while k_vector < k_vectors * planes {
            let (plane, of_plane) = div_rem(k_vector, k_vectors);
            let gap = of_plane >> shift;
            let line = if gap < staged_tiles * of_each {
                let (staged_tile, gap) = div_rem(gap, of_each);
                staged_tile * pitch + used + gap
            } else {
                gap - staged_tiles * of_each + all
            };
            let at = ((plane * g.halo_k_vectors + line) << shift) + of_plane - (gap << shift);
            self.halos.store_vec(at * K_VECTOR_WORDS, [0u32; 4]);
            k_vector += BLOCK_THREADS;
        }
    }
}
