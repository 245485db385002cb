//! Staged tiles of dense f32: the producer converts an NCHW input to planes of f16 K-vectors, without a
//! reformat.
//!
//! TMA loads boxes of the channels of a K-vector, with all columns of the halo tile and some of its rows. A
//! lane of a producer warp then gathers the values of a K-vector, which are a channel's distance apart in
//! staging memory. Neighbouring lanes have neighbouring columns. Scales, filters and MMAs are those of an
//! input that is reformatted to planes (`staged_f32` says how scales are found).
//!
//! Rows of a tensor map start at multiples of 16 bytes, so the input has a multiple of four columns. So do
//! boxes: they begin up to three columns before the halo tile, the same number in all tiles.

use super::sm90::MainloopConfig;
use super::sm90::block::{HALO_WARPS, MIN_FILTER_STAGES, TARGET_BYTES};
use super::staged_f32::LAUNCH_CYCLES;
use super::tile::INSTRUCTION_PIXELS;
use super::{
    GemmConfig, GemmDevice, ImplicitGemmGeometry, K_VECTOR_BYTES, KVectorStrides, Loader,
    StagedTiles,
};
use crate::WARP_THREADS;

/// Values in 16 bytes, the unit of a box's rows.
const ROW_VALUES: u32 = 4;

/// Limit of the bytes of a staged tile. In a larger one, more values share a fence and waits
/// (docs/tuning.md).
const STAGED_TILE_BYTES: u32 = 8 * 1024;

/// The most elements of a box along an axis.
const MAX_BOX: u32 = 256;

/// Cycles in which a warp converts a K-vector for each of its lanes. They are fewer than measured, because
/// producers convert beside epilogues, which the comparison leaves out (docs/tuning.md).
const ROUND_CYCLES: u64 = 120;
/// The same for a staged tile in addition to its rounds (docs/tuning.md).
const STAGED_TILE_CYCLES: u64 = 300;

/// Bytes of traffic for each f32 that is reformatted: read, and written as f16.
const REFORMATTED_BYTES: u64 = 4 + 2;

impl ImplicitGemmGeometry {
    /// Rows of a slice of the halo tile: of the input's rows, if they are not stored by stride phase.
    #[must_use]
    #[inline(always)]
    pub const fn slice_rows(&self) -> u32 {
        match self.strips {
            0 => self.halo_h,
            _ => self.stride_phase_rows,
        }
    }

    /// Slices of the halo tile that are next to each other in each row: those of the tile with strips, which
    /// are stored once for each slice of the filter.
    #[must_use]
    #[inline(always)]
    pub const fn row_slices(&self) -> u32 {
        match self.strips {
            0 => 1,
            _ => self.tile_d,
        }
    }

    /// K-vectors of the halo tile for a row of a slice.
    #[must_use]
    #[inline(always)]
    pub const fn slice_row_k_vectors(&self) -> u32 {
        match self.strips {
            0 => self.halo_row(),
            strips => strips * self.halo_row(),
        }
    }

    /// K-vectors of a staged tile of dense f32.
    #[must_use]
    #[inline(always)]
    pub const fn staged_k_vectors(&self) -> u32 {
        self.staged_tiles.extents[0] * self.slice_row_k_vectors()
    }

    /// Columns of a staged tile before the first one of the halo tile.
    #[must_use]
    #[inline(always)]
    pub const fn columns_before(&self) -> u32 {
        self.conv.pad_w.wrapping_neg() & (ROW_VALUES - 1)
    }

    /// Columns of the input, from the first to the last one of the halo tile.
    fn halo_reach(&self) -> Option<u32> {
        let strips = self.strips.max(1);
        let last = (strips - 1) * INSTRUCTION_PIXELS + self.halo_columns - 1;
        let in_k_vector = (self.k_vector_columns - 1).checked_mul(self.conv.dilation_w)?;
        (last.checked_mul(self.conv.stride_w)?)
            .checked_add(self.stride_phases)?
            .checked_add(in_k_vector)
    }

    /// The staged tiles of dense f32, if boxes have room for their rows.
    fn dense_tiles(&self) -> Option<StagedTiles> {
        let columns = (self.halo_reach()?)
            .checked_add(self.columns_before())?
            .checked_next_multiple_of(ROW_VALUES)?;
        let of_row = 4 * self.k_vector_channels * columns;
        let slices = match self.strips {
            0 => self.halo_d,
            _ => self.filter_slices * self.tile_d,
        };
        let all = self.slice_rows();
        let slices_of_k_block = self.k_block_planes * slices;
        // At least one staged tile for each warp, and all of about the same size.
        let most = (STAGED_TILE_BYTES / of_row).clamp(1, MAX_BOX);
        let fewest = HALO_WARPS.div_ceil(slices_of_k_block).min(all);
        let rows = all.div_ceil(all.div_ceil(most).max(fewest));
        let tiles = all.div_ceil(rows);
        let bytes = rows * of_row;
        (columns <= MAX_BOX).then_some(StagedTiles {
            extents: [rows, columns],
            counts: [tiles, slices],
            bytes,
            of_k_block: slices_of_k_block.checked_mul(tiles)?,
            staged_bytes: bytes.next_multiple_of(TARGET_BYTES),
        })
    }
}

impl GemmConfig {
    /// The config that reads a dense f32 input in place, if it can. The input is aligned to 16 bytes. Results
    /// are the same bits as from a reformatted input, if the samples' scales are.
    #[must_use]
    pub fn dense_in_place(&self, device: &GemmDevice) -> Option<Self> {
        let (g, conv) = (&self.geometry, &self.geometry.conv);
        // Tiles are whole boxes apart.
        let tile_step = g.tile_w.checked_mul(conv.stride_w)?;
        let has_rows = conv.w.is_multiple_of(ROW_VALUES)
            && (g.tiles_w == 1 || tile_step.is_multiple_of(ROW_VALUES));
        // With strips, rows that are a stride apart are stored by stride phase.
        let rows_are_input_rows = g.strips == 0 || conv.stride_h == 1 && g.row_stride_phases == 1;
        // Without a stride, windows use all columns of a K-vector.
        let columns_are_used = g.k_vector_columns == 1 || conv.stride_w == 1;
        // The channels behind a group's last one are the next group's, which are not zero.
        let of_k_block = g.k_block_planes.checked_mul(g.k_vector_channels)?;
        let k_blocks_end_with_groups = conv.groups == 1 || conv.group_c.is_multiple_of(of_k_block);
        let suits = self.tile.is_warp_specialized()
            && self.split_k == 1
            && self.may_convert_in_producer()
            && has_rows
            && rows_are_input_rows
            && columns_are_used
            && k_blocks_end_with_groups;
        if !suits {
            return None;
        }
        let geometry = ImplicitGemmGeometry {
            k_vectors: KVectorStrides {
                loader: Loader::DENSE_F32,
                ..KVectorStrides::REFORMATTED
            },
            staged_tiles: g.dense_tiles()?,
            // Staging buffers follow the halo stages, and are targets of boxes.
            halo_k_vectors: (g.halo_k_vectors)
                .checked_next_multiple_of(TARGET_BYTES / K_VECTOR_BYTES)?,
            ..*g
        };
        let dense = Self { geometry, ..*self };
        dense.can_convert_on(device).then_some(dense)
    }

    /// Checks whether reading a dense input in place takes no longer than reformatting it first.
    #[must_use]
    pub fn pays_dense(&self, device: &GemmDevice) -> bool {
        let mainloop = self.mainloop_config(device);
        mainloop.is_some_and(|mainloop| self.dense_pays(device, mainloop) == Some(true))
    }

    fn dense_pays(&self, device: &GemmDevice, mainloop: MainloopConfig) -> Option<bool> {
        let g = &self.geometry;
        // Staging buffers leave large filters few stages, and consumers wait for them.
        if !mainloop.residency.is_resident() && mainloop.filters < MIN_FILTER_STAGES {
            return Some(false);
        }
        let k_blocks = self.converted_k_blocks(device, mainloop)?;
        let staged_tiles = u64::from(g.staged_tiles.of_k_block);
        let rounds = u64::from(g.staged_k_vectors().div_ceil(WARP_THREADS)) * staged_tiles;
        let of_k_block =
            (rounds * ROUND_CYCLES + staged_tiles * STAGED_TILE_CYCLES) / u64::from(HALO_WARPS);
        let conversion = k_blocks.checked_mul(of_k_block)?;
        let consumer = self.consumer_cycles(device, mainloop, k_blocks)?;
        let moved = self.moved_cycles(device, REFORMATTED_BYTES)?;
        Some(conversion <= consumer.saturating_add(moved + LAUNCH_CYCLES))
    }
}
