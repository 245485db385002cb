//! The time of a warp-specialized tile whose results take longer to write than to compute.
//!
//! MMAs of other tiles then no longer hide what the tile's pixels cost: copies of the halo tile, and lines of
//! the output. The constants are from tiles of different extents on an H200 (docs/tuning.md).

use super::{STEP_CYCLES, WARP_SPECIALIZED, WRITTEN_PER_CYCLE};
use crate::implicit_gemm::{ImplicitGemmGeometry, MMA_STEP_K_VECTORS, OperandFormat};

/// Cycles of a tile that depend on nothing else here.
const TILE_CYCLES: u64 = 3_000;

/// Cycles of a line of the output, or a part of it.
const LINE_CYCLES: u64 = 1;

/// Cycles of a pixel of an NHWC halo tile, for each span of channels; and of one of a halo tile of planes,
/// for each plane.
const SPAN_CYCLES: u64 = 2;
const PLANE_CYCLES: u64 = 1;

/// Cycles of a box of a single row, of which an NHWC halo tile of more than two strips consists.
const ROW_BOX_CYCLES: u64 = 10;

/// Bytes of a line of the level-2 cache.
const LINE_BYTES: u32 = 128;

impl ImplicitGemmGeometry {
    /// Returns the cycles of a tile, if writing it takes longer than its MMAs.
    pub(in crate::implicit_gemm) fn write_bound_cycles(
        &self,
        format: OperandFormat,
    ) -> Option<u64> {
        if format.parts > 1 || !self.epilogue.is_written_by_rows() {
            return None;
        }
        let filters = self.conv.group_k.min(WARP_SPECIALIZED.filters());
        let bytes = filters * WARP_SPECIALIZED.pixels() * format.value_bytes();
        let depth = u64::from(self.depth_k_blocks);
        let planes = u64::from(self.planes);
        let multiplying =
            depth * planes * u64::from(self.taps) * STEP_CYCLES / u64::from(MMA_STEP_K_VECTORS);
        if multiplying >= u64::from(bytes) / WRITTEN_PER_CYCLE {
            return None;
        }
        let pixels = u64::from(self.halo_k_vectors);
        let copying = match self.span_planes(format) {
            Some(of_span) => {
                let boxes = ROW_BOX_CYCLES * u64::from(self.row_boxes());
                planes * (SPAN_CYCLES * depth * pixels + boxes) / u64::from(of_span)
            }
            None => PLANE_CYCLES * depth * planes * pixels,
        };
        let written = LINE_CYCLES * u64::from(filters) * self.lines(format);
        Some(TILE_CYCLES + multiplying + copying + written)
    }

    /// Lines, and parts of lines, of a filter's results.
    fn lines(&self, format: OperandFormat) -> u64 {
        let line = LINE_BYTES / format.value_bytes();
        let rows = self.tile_d * self.tile_h;
        u64::from(match self.is_run() {
            true => (rows * self.tile_w).div_ceil(line),
            false => rows * self.tile_w.div_ceil(line),
        })
    }
}
