//! The scales of samples that the producer converts (`staged_f32`).

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::ImplicitGemmGeometry;
use launch_config::implicit_gemm::sm90::HALO_WARPS;

use super::super::reformat::{OPTIMISTIC_DESCALE, OPTIMISTIC_MAX};
use super::Work;

/// The scales of samples in a launch whose producer converts.
#[derive(Clone, Copy)]
pub(super) struct Scales {
    /// Magnitudes that the first launch, which uses the optimistic scale, records for each tile; 0 in the
    /// second launch.
    pub(super) recorded: u32,
    /// In the second launch, the reciprocal scale of each sample.
    descales: Global<f32>,
    /// The magnitudes that the first launch records.
    largest: *mut u32,
}

impl Scales {
    /// The scales of a launch, from the arguments of its kernel.
    #[inline(always)]
    pub(super) unsafe fn of(
        g: &ImplicitGemmGeometry,
        recorded: u32,
        descales: *const f32,
        largest: *mut u32,
    ) -> Self {
        Self {
            recorded,
            descales: Global::new(descales, g.conv.n as usize),
            largest,
        }
    }

    /// The reciprocal scale of a sample.
    #[inline(always)]
    pub(super) unsafe fn descale(&self, sample: u32) -> f32 {
        // Evaluated each time: keeping the condition would take a register.
        if opaque::to_compiler(self.recorded) == 0 {
            self.descales.load_readonly(sample as usize)
        } else {
            OPTIMISTIC_DESCALE
        }
    }

    /// The largest magnitudes that the block's warps convert for a tile of pixels.
    #[inline(always)]
    pub(super) unsafe fn magnitudes(&self, work: &Work<'_>, work_tile: u32) -> GlobalMut<u32> {
        let recorded = self.recorded;
        let all = work.g.work_tiles() as u32 * recorded;
        // Blocks of the same tile have consecutive indices.
        let block = thread::block_idx_x() - work.first_work_tile * (recorded / HALO_WARPS);
        let at = work_tile * recorded + block * HALO_WARPS;
        GlobalMut::new(self.largest, all as usize).slice(at as usize, HALO_WARPS as usize)
    }

    /// Whether the second launch computes a tile of pixels again, because the block has converted values
    /// beyond the optimistic scale for it. The calling thread has waited for the tile's halo stages.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn are_exceeded(&self, work: &Work<'_>, work_tile: u32) -> bool {
        if self.recorded == 0 {
            return false;
        }
        let magnitudes = self.magnitudes(work, work_tile);
        let mut warp = 0;
        let mut largest = 0;
        while warp < HALO_WARPS {
            opaque::not_unrolled();
            largest = largest.max(magnitudes.load(warp as usize));
            warp = opaque::to_compiler(warp + 1);
        }
        largest > OPTIMISTIC_MAX.to_bits()
    }

    /// Whether the second launch may return, because all samples have the optimistic scale. All lanes of a
    /// warp make this call, and get the same result.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn are_optimistic(&self, samples: u32) -> bool {
        if self.recorded != 0 {
            return false;
        }
        let mut others = false;
        let mut sample = thread::thread_idx_x() % WARP_THREADS;
        while sample < samples {
            others |= self.descales.load_readonly(sample as usize) != OPTIMISTIC_DESCALE;
            sample += WARP_THREADS;
        }
        !warp::warp_vote_any(warp::ALL_LANES, others)
    }
}
