//! Inputs of f32 that the product rounds on their way to the patch, so that nothing packs them.
//!
//! Where the channels of a pixel are neighbours, eight f32 are a cell as soon as they are rounded. Boxes of a patch of lines come as f32 to a place of
//! their own in shared memory, *staged*, in *pieces*: each is some rows of a box, so that it is a run of the box's lines. A block's three warps
//! beside the one that brings filters take pieces in turn, and each starts its own copies.
//!
//! Values are scaled by a power of two as they are where they are packed: by the usual one, while the largest magnitude of each tile's values is *noted*. A
//! kernel between finds out which samples that does not suit, and the product is launched once more; it returns at once
//! where there is none.

use super::wide::{PATCH_WARPS, TARGET_BYTES, WideRings};
use super::{CELL_BYTES, GemmConfig, GemmDevice, GemmGeometry};

/// Bytes that a piece should not exceed, if it is more than one row.
const PIECE_BYTES: u32 = 10 * 1024;

/// Pieces that a warp has staged at a time: one that it rounds, and others on their way. More of them where patches are large, so that there are slots for two, if that
/// leaves filters enough.
pub(super) const STAGED_PIECES: u32 = 2;
pub(super) const MORE_STAGED_PIECES: u32 = 3;

/// Fours of values that a warp rounds in a round, and about how many cycles that takes, and each piece besides (docs/tuning.md).
const ROUND_FOURS: u64 = 128;
const ROUND_CYCLES: u64 = 170;
const PIECE_CYCLES: u64 = 900;

/// Bytes moved of each f32 that is first brought into order and then packed: it is read and written, and read and written rounded.
const PACKED_BYTES: u64 = 4 + 4 + 4 + 2;

/// Bytes that memory moves in a cycle for each multiprocessor.
const MOVED_PER_CYCLE: u64 = 14;

/// Cycles of a launch: there is one more where the input is brought into order and packed.
const LAUNCH_CYCLES: u64 = 4_000;

/// Words that a block notes of each piece of a stage.
pub const PIECE_WORDS: u32 = 8;

/// Bytes of a value that is rounded, over those of its operand.
pub const STAGED_WIDTH: u32 = 2;

/// How the boxes of a patch of lines are copied: whole, or in pieces where values are rounded on their way.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// What a piece has along the second and the third axis of its box: of several along the third all along the second.
    pub extents: [u32; 2],
    /// Pieces of a box along these axes.
    pub counts: [u32; 2],
    /// Bytes of a piece.
    pub bytes: u32,
    /// Pieces of a stage; 0 if the patch is of planes.
    pub of_stage: u32,
    /// From a staged piece to the next, in bytes; 0 if values are not rounded on their way.
    pub staged_bytes: u32,
}

impl Pieces {
    /// Those of a patch of planes.
    pub const NONE: Self = Self {
        extents: [0; 2],
        counts: [0; 2],
        bytes: 0,
        of_stage: 0,
        staged_bytes: 0,
    };

    /// Those of a geometry of lines, whose values are rounded on their way if `rounded` is 1.
    pub(super) const fn of(g: &GemmGeometry, rounded: u32) -> Self {
        let [columns, second, third] = g.box_axes();
        let width = 1 + rounded * (STAGED_WIDTH - 1);
        let run_bytes = columns * width * (CELL_BYTES << g.line_shift());
        let boxes = (g.stage_planes >> g.line_shift()) * g.cells.boxes;
        // Each warp is to have one, if there are as many runs.
        let of_box = second * third / PATCH_WARPS.div_ceil(boxes);
        let runs = if PIECE_BYTES / run_bytes < of_box {
            PIECE_BYTES / run_bytes
        } else {
            of_box
        };
        let most = match runs {
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
        let counts = [second.div_ceil(most[0]), third.div_ceil(most[1])];
        let extents = most;
        let bytes = extents[0] * extents[1] * run_bytes;
        Self {
            extents,
            counts,
            bytes,
            of_stage: boxes * counts[0] * counts[1],
            staged_bytes: rounded * bytes.next_multiple_of(TARGET_BYTES),
        }
    }
}

impl GemmGeometry {
    /// Whether the input's values are rounded on their way to the patch.
    #[must_use]
    #[inline(always)]
    pub const fn is_rounded_on_its_way(&self) -> bool {
        self.pieces.staged_bytes != 0
    }

    /// How many times the bytes of an operand a value has where it comes from.
    #[must_use]
    pub const fn source_width(&self) -> u32 {
        if self.is_rounded_on_its_way() {
            STAGED_WIDTH
        } else {
            1
        }
    }
}

impl GemmConfig {
    /// How many magnitudes a product with these rings notes of each tile of pixels, where it rounds the input.
    #[must_use]
    pub const fn noted_of_tile(&self, rings: WideRings) -> u32 {
        self.geometry.wide_sets(rings.tiles) * rings.splits * PATCH_WARPS
    }

    /// Whether the product may round the input's values itself. Where no norm follows, what comes out as NaN at a scale that does not suit is
    /// computed again, which takes long; and of a small sample each block that packs looks through all values for the scale.
    pub(super) const fn may_round(&self) -> bool {
        let (format, g) = (self.format, &self.geometry);
        format.parts == 1 && format.scaled && g.alone == 0 && g.scans == 0
    }

    /// Whether it can on the device: each warp has a piece in every stage, so that it is never two rounds ahead of the ring of patches, and 32 bits count what the product notes, and 31 a
    /// pixel's elements of 16 bits.
    pub(super) fn rounds_on(&self, device: &GemmDevice) -> bool {
        let g = &self.geometry;
        let noted = (self.wide_rings(device))
            .and_then(|rings| u64::from(self.noted_of_tile(rings)).checked_mul(g.items()));
        let are_counted = noted.is_some_and(|noted| u32::try_from(noted).is_ok());
        let are_reached = g.conv.input_channels() <= i32::MAX as u32 / STAGED_WIDTH;
        are_counted && are_reached && g.pieces.of_stage >= PATCH_WARPS
    }

    /// Whether a product that reads its input as it lies takes no longer than bringing the input into order, packing it, and multiplying then. One whose operands are
    /// values as they are does not.
    #[must_use]
    pub fn pays_unpacked(&self, device: &GemmDevice) -> bool {
        let rings = self.wide_rings(device);
        let rounds = rings.filter(|_| self.geometry.is_rounded_on_its_way());
        rounds.is_none_or(|rings| self.rounding_pays(device, rings) == Some(true))
    }

    fn rounding_pays(&self, device: &GemmDevice, rings: WideRings) -> Option<bool> {
        let g = &self.geometry;
        let multiprocessors = u64::from(device.multiprocessors);
        let blocks = u64::from(g.wide_sets(rings.tiles) * rings.splits);
        let stages = u64::from(g.stages.div_ceil(rings.splits));
        let stages = (g.items().checked_mul(blocks)?)
            .div_ceil(multiprocessors)
            .checked_mul(stages)?;

        let pieces = u64::from(g.pieces.of_stage);
        let fours = u64::from(g.stage_planes * g.cells.boxes * g.box_used()) * 2;
        let rounds = fours.div_ceil(ROUND_FOURS).max(pieces);
        let of_stage = (rounds * ROUND_CYCLES + pieces * PIECE_CYCLES) / u64::from(PATCH_WARPS);
        let rounding = stages.checked_mul(of_stage)?;

        let multiplying = stages
            .checked_mul(u64::from(g.steps * rings.tiles))?
            .checked_mul(self.tile.step_cycles())?;
        let values = g.sample_elements().checked_mul(g.conv.n)?;
        let moved = values.checked_mul(PACKED_BYTES)? / (MOVED_PER_CYCLE * multiprocessors);
        Some(rounding <= multiplying.saturating_add(moved + LAUNCH_CYCLES))
    }
}
