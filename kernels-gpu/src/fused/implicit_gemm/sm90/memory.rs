//! The shared memory of a block.

use cuda_std::mbarrier::Barrier;
use cuda_std::opaque;
use cuda_std::shared::{self, Shared};
use launch_config::implicit_gemm::sm90::{
    MainloopConfig, TILE_COORD_ALL_WORDS, TILE_COORD_WORDS, TILE_COORDS, WARPS, WRITTEN_WORDS,
    mma_batch_bytes,
};
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_WORDS, OperandFormat, WARP_SPECIALIZED,
};

use super::super::format::Format;
use super::super::tile_coord::TileCoord;
use super::Work;
use crate::parts::pipeline::Pipeline;

/// The word behind the coordinates of tiles, from which on the work of the block is: the number of its tiles
/// of pixels, then fields of [`Work`].
const WORK: u32 = TILE_COORDS * TILE_COORD_WORDS;

/// Views of the parts that `WarpSpecializedLayout` describes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) offsets: Shared<u32>,
    pub(super) pixels: Shared<u32>,
    pub(super) positions: Shared<u32>,
    pub(super) sources: Shared<u32>,
    coords: Shared<u32>,
    pub(super) channels: Shared<f32>,
    pub(super) barriers: Shared<u64>,
    pub(super) results: Shared<f32>,
    pub(super) exchange: Shared<f32>,
    pub(super) halos: Shared<u32>,
    pub(super) filters: Shared<u32>,
    pub(super) mainloop: MainloopConfig,
    /// How values become operands.
    pub(super) format: OperandFormat,
}

impl Memory {
    #[inline(always)]
    pub(super) unsafe fn of(
        g: &ImplicitGemmGeometry,
        mainloop: MainloopConfig,
        format: OperandFormat,
    ) -> Self {
        let layout = g.warp_specialized_layout(format, mainloop);
        let mma_batch_words = mainloop.tiles * mma_batch_bytes(format.step_parts()) / 4;
        Self {
            offsets: shared::dynamic(layout.offsets, g.offsets),
            pixels: shared::dynamic(layout.pixels, WARP_SPECIALIZED.pixels()),
            positions: shared::dynamic(layout.positions, WARP_SPECIALIZED.pixels()),
            sources: shared::dynamic(layout.sources, g.source_words()),
            coords: shared::dynamic(layout.coords, TILE_COORD_ALL_WORDS),
            channels: shared::dynamic(
                layout.channels,
                mainloop.tiles * WARP_SPECIALIZED.filters() * K_VECTOR_WORDS,
            ),
            barriers: shared::dynamic(layout.barriers, mainloop.barriers()),
            results: shared::dynamic(layout.results, WARPS * WRITTEN_WORDS),
            exchange: shared::dynamic(layout.exchange, mainloop.exchanged()),
            halos: shared::dynamic(
                layout.halos,
                mainloop.halos * g.k_block_bytes(format.parts) / 4,
            ),
            filters: shared::dynamic(layout.filters, mainloop.filters * mma_batch_words),
            mainloop,
            format,
        }
    }

    /// The same views. Beside a dense input, addresses are computed again: kept ones would take registers.
    #[inline(always)]
    pub(super) unsafe fn again<F: Format>(&self, g: &ImplicitGemmGeometry) -> Self {
        if !F::READS_DENSE {
            return *self;
        }
        let g = ImplicitGemmGeometry {
            offsets: opaque::to_compiler(g.offsets),
            ..*g
        };
        Self::of(&g, self.mainloop, self.format)
    }

    /// The entry of the block's tile of pixels of this number.
    #[inline(always)]
    fn coords_entry(number: u32) -> u32 {
        (number & (TILE_COORDS - 1)) * TILE_COORD_WORDS
    }

    /// Stores the coordinates of the block's tile of pixels of this number. Its halo tiles follow, so that
    /// who has waited for one of them may load the coordinates.
    #[inline(always)]
    pub(super) unsafe fn store_coord(&self, number: u32, place: &TileCoord) {
        let entry = Self::coords_entry(number);
        self.coords
            .store_vec(entry, [place.sample, place.z, place.p, place.q]);
        self.coords.store(entry + 4, place.tile);
    }

    /// Loads the coordinates of the block's tile of pixels of this number.
    #[inline(always)]
    pub(super) unsafe fn coord(&self, number: u32) -> TileCoord {
        let entry = Self::coords_entry(number);
        let [sample, z, p, q] = self.coords.load_vec(entry);
        TileCoord {
            sample,
            tile: self.coords.load(entry + 4),
            z,
            p,
            q,
        }
    }

    /// Whether the block has a tile of pixels of this number. The number of tiles is loaded each time; a kept
    /// number would take a register.
    #[inline(always)]
    pub(super) unsafe fn has_tile(&self, number: u32) -> bool {
        number < opaque::load(self.coords, WORK)
    }

    /// Returns the block's tile of pixels of this number, also to save registers.
    #[inline(always)]
    pub(super) unsafe fn work_tile(&self, number: u32) -> u32 {
        opaque::load(self.coords, WORK + 1) + number * opaque::load(self.coords, WORK + 2)
    }

    /// Stores the work of the block.
    #[inline(always)]
    pub(super) unsafe fn store_work(&self, work: &Work<'_>) {
        let pixels = [work.first_work_tile, work.work_tile_step];
        (self.coords).store_vec(WORK, [work.tiles(), pixels[0], pixels[1], work.group]);
        self.coords.store(WORK + 4, work.filter_tile);
    }

    /// Loads the work of the block.
    #[inline(always)]
    pub(super) unsafe fn work<'a>(&self, g: &'a ImplicitGemmGeometry) -> Work<'a> {
        let load = |i| opaque::load(self.coords, WORK + i);
        Work {
            g,
            first_work_tile: load(1),
            work_tile_step: load(2),
            group: load(3),
            filter_tile: load(4),
            split_k: self.mainloop.split_k,
        }
    }

    pub(super) fn halos(&self) -> Pipeline {
        Pipeline {
            barriers: self.barriers,
            first: 0,
            stages: self.mainloop.halos,
            wraps: 1,
        }
    }

    /// Returns the order barrier at which `warpgroup` waits before its next tile in the ping-pong schedule.
    /// The other warpgroup arrives when it waits for no more stages.
    #[inline(always)]
    pub(super) fn order_barrier(&self, warpgroup: u32) -> Barrier {
        let stages = 2 * (self.mainloop.halos + self.mainloop.filters);
        Barrier::at(self.barriers, stages + warpgroup)
    }

    pub(super) fn filters(&self) -> Pipeline {
        Pipeline {
            barriers: self.barriers,
            first: 2 * self.mainloop.halos,
            stages: self.mainloop.filters,
            wraps: 1 - self.mainloop.residency.code(),
        }
    }
}
