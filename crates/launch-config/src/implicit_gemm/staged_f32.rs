//! Staged f32 tiles: channels-last f32 that the producer converts to f16 on the way to the halo tile, so
//! nothing reformats it.
//!
//! Where the channels of a pixel are neighbours, eight f32 are a K-vector once they are converted. TMA loads
//! the boxes of an NHWC halo tile as f32 into staging memory, in *staged tiles* of some rows of a box each.
//! The three producer warps of halo tiles take them in turn, and each starts its own copies.
//!
//! Values are scaled by a power of two, as in the reformat. The product runs at the optimistic scale and
//! records the largest magnitude of each tile. A kernel then finds the samples that the scale does not suit,
//! and a second launch of the product repeats the work with their scales; it returns at once where there are
//! none.

use super::sm90::MainloopConfig;
use super::sm90::block::{HALO_WARPS, TARGET_BYTES};
use super::{GemmConfig, GemmDevice, GemmGeometry, K_VECTOR_BYTES};

/// Bytes that a piece should not exceed, if it is more than one row.
const STAGED_TILE_BYTES: u32 = 10 * 1024;

/// Fours of values that a warp rounds in a round, and about how many cycles that takes, and each piece
/// besides (docs/tuning.md).
const ROUND_FOURS: u64 = 128;
const ROUND_CYCLES: u64 = 170;
const STAGED_TILE_CYCLES: u64 = 900;

/// Bytes moved of each f32 that is first loaded into order and then reformatted: it is read and written, and
/// read and written rounded.
const REFORMATTED_BYTES: u64 = 4 + 4 + 4 + 2;

/// Bytes that memory moves in a cycle for each multiprocessor.
const MOVED_PER_CYCLE: u64 = 14;

/// Cycles of a launch: there is one more where the input is loaded into order and reformatted.
const LAUNCH_CYCLES: u64 = 4_000;

/// Bytes of a value that is rounded, over those of its operand.
pub const STAGED_WIDTH: u32 = 2;

/// How the boxes of a halo tile of lines are copied: whole, or in pieces where values are converted in the
/// producer.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedTiles {
    /// What a piece has along the second and the third axis of its box: of several along the third all along
    /// the second.
    pub extents: [u32; 2],
    /// Pieces of a box along these axes.
    pub counts: [u32; 2],
    /// Bytes of a piece.
    pub bytes: u32,
    /// Pieces of a K block; 0 if the halo tile is of planes.
    pub of_k_block: u32,
    /// From a staged piece to the next, in bytes; 0 if values are not converted in the producer.
    pub staged_bytes: u32,
}

impl StagedTiles {
    /// Those of a halo tile of planes.
    pub const NONE: Self = Self {
        extents: [0; 2],
        counts: [0; 2],
        bytes: 0,
        of_k_block: 0,
        staged_bytes: 0,
    };

    /// Those of a geometry of lines, whose values are converted in the producer if `rounded` is 1.
    pub(super) const fn of(g: &GemmGeometry, rounded: u32) -> Self {
        let [columns, second, third] = g.box_axes();
        let width = 1 + rounded * (STAGED_WIDTH - 1);
        let run_bytes = columns * width * (K_VECTOR_BYTES << g.span_shift());
        let boxes = (g.k_block_planes >> g.span_shift()) * g.k_vectors.boxes;
        // Each warp is to have one, if there are as many runs.
        let of_box = second * third / HALO_WARPS.div_ceil(boxes);
        let runs = if STAGED_TILE_BYTES / run_bytes < of_box {
            STAGED_TILE_BYTES / run_bytes
        } else {
            of_box
        };
        let max = match runs {
            _ if rounded == 0 => [second, third],
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
            staged_bytes: rounded * bytes.next_multiple_of(TARGET_BYTES),
        }
    }
}

impl GemmGeometry {
    /// Whether the input's values are converted in the producer to the halo tile.
    #[must_use]
    #[inline(always)]
    pub const fn is_converted_in_producer(&self) -> bool {
        self.staged_tiles.staged_bytes != 0
    }

    /// How many times the bytes of an operand a value has where it comes from.
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
    /// How many magnitudes a product with these pipelines notes of each tile of pixels, where it rounds the
    /// input.
    #[must_use]
    pub const fn recorded_of_tile(&self, mainloop: MainloopConfig) -> u32 {
        self.geometry.warp_specialized_sets(mainloop.tiles) * mainloop.split_k * HALO_WARPS
    }

    /// Whether the product may round the input's values itself. Where no norm follows, what comes out as NaN
    /// at a scale that does not suit is computed again, which takes long; and of a small sample each block
    /// that reformats looks through all values for the scale.
    pub(super) const fn may_convert_in_producer(&self) -> bool {
        let (format, g) = (self.format, &self.geometry);
        format.parts == 1 && format.scaled && g.without_norm == 0 && g.scans == 0
    }

    /// Whether it can on the device: each warp has a piece in every K block, so that it is never two rounds
    /// ahead of the pipeline of halo tiles, and 32 bits count what the product notes, and 31 a pixel's
    /// elements of 16 bits.
    pub(super) fn can_convert_on(&self, device: &GemmDevice) -> bool {
        let g = &self.geometry;
        let recorded = (self.mainloop_config(device)).and_then(|mainloop| {
            u64::from(self.recorded_of_tile(mainloop)).checked_mul(g.work_tiles())
        });
        let are_counted = recorded.is_some_and(|recorded| u32::try_from(recorded).is_ok());
        let are_reached = g.conv.input_channels() <= i32::MAX as u32 / STAGED_WIDTH;
        are_counted && are_reached && g.staged_tiles.of_k_block >= HALO_WARPS
    }

    /// Whether a product that reads its input as it lies takes no longer than bringing the input into order,
    /// reformatting it, and multiplying then. One whose operands are values as they are does not.
    #[must_use]
    pub fn pays_channels_last(&self, device: &GemmDevice) -> bool {
        let mainloop = self.mainloop_config(device);
        let rounds = mainloop.filter(|_| self.geometry.is_converted_in_producer());
        rounds.is_none_or(|mainloop| self.conversion_pays(device, mainloop) == Some(true))
    }

    fn conversion_pays(&self, device: &GemmDevice, mainloop: MainloopConfig) -> Option<bool> {
        let g = &self.geometry;
        let multiprocessors = u64::from(device.multiprocessors);
        let blocks = u64::from(g.warp_specialized_sets(mainloop.tiles) * mainloop.split_k);
        let k_blocks = u64::from(g.k_blocks.div_ceil(mainloop.split_k));
        let k_blocks = (g.work_tiles().checked_mul(blocks)?)
            .div_ceil(multiprocessors)
            .checked_mul(k_blocks)?;

        let staged_tiles = u64::from(g.staged_tiles.of_k_block);
        let fours = u64::from(g.k_block_planes * g.k_vectors.boxes * g.box_used()) * 2;
        let rounds = fours.div_ceil(ROUND_FOURS).max(staged_tiles);
        let of_k_block =
            (rounds * ROUND_CYCLES + staged_tiles * STAGED_TILE_CYCLES) / u64::from(HALO_WARPS);
        let rounding = k_blocks.checked_mul(of_k_block)?;

        let consumer = k_blocks
            .checked_mul(u64::from(g.mma_steps * mainloop.tiles))?
            .checked_mul(self.tile.step_cycles(device))?;
        let values = g.sample_elements().checked_mul(g.conv.n)?;
        let moved = values.checked_mul(REFORMATTED_BYTES)? / (MOVED_PER_CYCLE * multiprocessors);
        Some(rounding <= consumer.saturating_add(moved + LAUNCH_CYCLES))
    }
}
