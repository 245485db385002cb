//! Staged f32 tiles: the producer converts channels-last f32 to f16 on the way to the halo tile, without a
//! reformat.
//!
//! Where the channels of a pixel are contiguous, eight f32 become a K-vector by conversion. TMA loads the
//! boxes of an NHWC halo tile as f32 into staging memory, in *staged tiles* of some rows of a box each. The
//! three producer warps of halo tiles take them in turn, and each starts its own copies.
//!
//! Values are scaled by a power of two, as in the reformat. The GEMM runs at the optimistic scale and records
//! the largest magnitude of each tile. A kernel then finds the samples that the scale does not suit, and a
//! second launch of the GEMM repeats them with their own scales. Without such samples, that launch returns at
//! once.

use super::sm90::MainloopConfig;
use super::sm90::block::{HALO_WARPS, TARGET_BYTES};
use super::{GemmConfig, GemmDevice, ImplicitGemmGeometry, K_VECTOR_BYTES};

/// Limit of the bytes of a staged tile, unless it is a single row.
const STAGED_TILE_BYTES: u32 = 10 * 1024;

/// Vectors of four values that a warp converts in a round.
const ROUND_VECTORS: u64 = 128;
/// Approximate cycles of a round (docs/tuning.md).
const ROUND_CYCLES: u64 = 170;
/// Approximate cycles of a staged tile in addition to its rounds (docs/tuning.md).
const STAGED_TILE_CYCLES: u64 = 900;

/// Bytes of traffic for each f32 that is first transposed and then reformatted: read, written, read again,
/// and written as f16.
const REFORMATTED_BYTES: u64 = 4 + 4 + 4 + 2;

/// Bytes that memory moves in a cycle for each multiprocessor.
const MOVED_PER_CYCLE: u64 = 14;

/// Cycles of a launch: transposing and reformatting the input takes one more.
pub(super) const LAUNCH_CYCLES: u64 = 4_000;

/// Bytes of a staged f32 value over those of its f16 operand.
pub const STAGED_WIDTH: u32 = 2;

/// How the boxes of an NHWC halo tile are copied: whole, or in staged tiles where the producer converts.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedTiles {
    /// Extents of a staged tile along the second and the third axis of its box. It has several elements along
    /// the third axis only if it covers the second axis. For dense f32, rows and columns.
    pub extents: [u32; 2],
    /// Staged tiles of a box along these axes. For dense f32, staged tiles of a slice, and slices.
    pub counts: [u32; 2],
    /// Bytes of a staged tile.
    pub bytes: u32,
    /// Staged tiles of a K block; 0 if the input is reformatted to planes.
    pub of_k_block: u32,
    /// Distance of staging buffers in bytes; 0 if the producer does not convert.
    pub staged_bytes: u32,
}

impl StagedTiles {
    /// No staged tiles: an input that is reformatted to planes.
    pub const NONE: Self = Self {
        extents: [0; 2],
        counts: [0; 2],
        bytes: 0,
        of_k_block: 0,
        staged_bytes: 0,
    };

    /// The staged tiles of an NHWC halo tile, whose values the producer may convert.
    pub(super) const fn of(g: &ImplicitGemmGeometry, is_converted: bool) -> Self {
        let [columns, second, third] = g.box_axes();
        let width = if is_converted { STAGED_WIDTH } else { 1 };
        let run_bytes = columns * width * (K_VECTOR_BYTES << g.span_shift());
        let boxes = (g.k_block_planes >> g.span_shift()) * g.k_vectors.boxes;
        // At least one staged tile for each warp, if there are that many runs.
        let of_box = second * third / HALO_WARPS.div_ceil(boxes);
        let runs = if STAGED_TILE_BYTES / run_bytes < of_box {
            STAGED_TILE_BYTES / run_bytes
        } else {
            of_box
        };
        let max = match runs {
            _ if !is_converted => [second, third],
            0 => [1, 1],
            runs if runs < second => [runs, 1],
            runs => [
                second,
                if runs / second < third {
                    runs / second
                } else {
                    third
                },
            ],
        };
        let counts = [second.div_ceil(max[0]), third.div_ceil(max[1])];
        let extents = max;
        let bytes = extents[0] * extents[1] * run_bytes;
        Self {
            extents,
            counts,
            bytes,
            of_k_block: boxes * counts[0] * counts[1],
            staged_bytes: if is_converted {
                bytes.next_multiple_of(TARGET_BYTES)
            } else {
                0
            },
        }
    }
}

impl ImplicitGemmGeometry {
    /// Whether the producer converts staged f32 tiles to f16.
    #[must_use]
    #[inline(always)]
    pub const fn is_converted_in_producer(&self) -> bool {
        self.staged_tiles.staged_bytes != 0
    }

    /// Bytes of an input value over those of an operand.
    #[must_use]
    pub const fn source_width(&self) -> u32 {
        if self.is_converted_in_producer() {
            STAGED_WIDTH
        } else {
            1
        }
    }
}

impl GemmConfig {
    /// Magnitudes that a launch with this mainloop records for each tile of pixels, if its producer converts.
    #[must_use]
    pub const fn recorded_of_tile(&self, mainloop: MainloopConfig) -> u32 {
        self.geometry.warp_specialized_sets(mainloop.tiles) * mainloop.split_k * HALO_WARPS
    }

    /// Whether the producer may convert the input. It may not for small samples, for which each block of the
    /// reformat scans all values for the scale.
    pub(super) const fn may_convert_in_producer(&self) -> bool {
        let format = self.format;
        format.parts == 1 && format.scaled && !self.geometry.prescale.is_scanned()
    }

    /// Whether the producer can convert on the device. Each warp must have a staged tile in every K block, so
    /// that it is never two rounds ahead of the halo pipeline. 32 bits must count the recorded magnitudes,
    /// and 31 bits a pixel's channels in elements of 16 bits.
    pub(super) fn can_convert_on(&self, device: &GemmDevice) -> bool {
        let g = &self.geometry;
        let recorded = (self.mainloop_config(device)).and_then(|mainloop| {
            u64::from(self.recorded_of_tile(mainloop)).checked_mul(g.work_tiles())
        });
        let are_counted = recorded.is_some_and(|recorded| u32::try_from(recorded).is_ok());
        let are_reached = g.conv.input_channels() <= i32::MAX as u32 / STAGED_WIDTH;
        are_counted && are_reached && g.staged_tiles.of_k_block >= HALO_WARPS
    }

    /// Checks whether reading a channels-last input in place takes no longer than transposing and
    /// reformatting it first. Reading in place always pays for values that are operands without conversion.
    #[must_use]
    pub fn pays_channels_last(&self, device: &GemmDevice) -> bool {
        let mainloop = self.mainloop_config(device);
        let converting = mainloop.filter(|_| self.geometry.is_converted_in_producer());
        converting.is_none_or(|mainloop| self.conversion_pays(device, mainloop) == Some(true))
    }

    fn conversion_pays(&self, device: &GemmDevice, mainloop: MainloopConfig) -> Option<bool> {
        let g = &self.geometry;
        let k_blocks = self.converted_k_blocks(device, mainloop)?;
        let staged_tiles = u64::from(g.staged_tiles.of_k_block);
        let vectors = u64::from(g.k_block_planes * g.k_vectors.boxes * g.box_used()) * 2;
        let rounds = vectors.div_ceil(ROUND_VECTORS).max(staged_tiles);
        let of_k_block =
            (rounds * ROUND_CYCLES + staged_tiles * STAGED_TILE_CYCLES) / u64::from(HALO_WARPS);
        let conversion = k_blocks.checked_mul(of_k_block)?;

        let consumer = self.consumer_cycles(device, mainloop, k_blocks)?;
        let moved = self.moved_cycles(device, REFORMATTED_BYTES)?;
        Some(conversion <= consumer.saturating_add(moved + LAUNCH_CYCLES))
    }

    /// The K blocks that a multiprocessor converts.
    pub(super) fn converted_k_blocks(
        &self,
        device: &GemmDevice,
        mainloop: MainloopConfig,
    ) -> Option<u64> {
        let g = &self.geometry;
        let blocks = u64::from(g.warp_specialized_sets(mainloop.tiles) * mainloop.split_k);
        let k_blocks = u64::from(g.k_blocks.div_ceil(mainloop.split_k));
        (g.work_tiles().checked_mul(blocks)?)
            .div_ceil(device.multiprocessors.into())
            .checked_mul(k_blocks)
    }

    /// Cycles of the MMAs of `k_blocks` K blocks.
    pub(super) fn consumer_cycles(
        &self,
        device: &GemmDevice,
        mainloop: MainloopConfig,
        k_blocks: u64,
    ) -> Option<u64> {
        k_blocks
            .checked_mul(u64::from(self.geometry.mma_steps * mainloop.tiles))?
            .checked_mul(self.tile.step_cycles(device))
    }

    /// Cycles of memory to move `bytes` for each value of the input.
    pub(super) fn moved_cycles(&self, device: &GemmDevice, bytes: u64) -> Option<u64> {
        let g = &self.geometry;
        let values = g.sample_elements().checked_mul(g.conv.n)?;
        let at_once = MOVED_PER_CYCLE * u64::from(device.multiprocessors);
        Some(values.checked_mul(bytes)? / at_once)
    }
}
