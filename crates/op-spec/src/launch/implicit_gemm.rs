//! A convolution as a matrix product on tensor cores, whose matrix of columns is never written.
//!
//! Once for a model, the kernel of the *filters* puts these into the order of the tensor cores' registers. For each
//! input, four kernels follow one another; `kernels_gpu::fused::implicit_gemm` says how they work.
//! 1. The input is *packed*: padded, and in *cells* of eight 16-bit values, so that one cell is what one
//!    row of a tensor-core operand takes, wherever it lies; or it is packed in lines (`lines`). One that is cells as it lies is not packed (`unpacked`).
//! 2. f32 samples whose values the usual scale does not suit are repacked.
//! 3. The product. A block has a *tile* of filters times pixels. It brings the part of the packed
//!    input that its pixels touch, the *patch*, into shared memory, some channels (a *stage*) at a time.
//! 4. The moments of the tiles of a norm's row are combined, where they are many.
//!
//! # The packed input
//! A cell holds eight channels of one pixel. Where a group has at most four channels, it holds
//! those of several neighbouring columns of the filter's reach instead, so that few of its places
//! are empty: two columns of four channels, four of two, or eight of one. One cell then serves
//! that many columns of the filter; a *tap* is what one cell serves.
//!
//! Columns that are a stride apart lie next to each other: column `w` is cell `w / stride` of
//! *residue* `w % stride`. Pixels that are neighbours in the output are so in the packed input, too.

use super::conv::ConvGeometry;
use super::{LaunchShape, WARP_THREADS};

mod combining;
mod config;
mod costs;
mod ending;
mod layout;
mod lines;
mod pieces;
mod pixels;
mod stages;
mod tile;
mod unpacked;
pub mod wide;

pub use combining::{COMBINED_BY_THREAD, Combining, combining};
pub use config::{GemmConfig, GemmDevice, USUAL_BATCH};
pub use ending::Ending;
pub use layout::{Layout, OUTSIDE, PLACE_BITS, TILE_PADDING, TILE_WORDS};
pub use pieces::{PIECE_WORDS, Pieces, STAGED_WIDTH};
pub use tile::{
    CHAIN_STEPS, GemmTile, KEPT_STEPS, M16N64, M16N256, M32N128, M64N32, M64N128, TILES, W64N128,
    WIDE,
};
pub use unpacked::CellStrides;

/// Threads of a block of the product.
pub const BLOCK_THREADS: u32 = 4 * WARP_THREADS;

/// Values of a cell.
pub const CELL_VALUES: u32 = 8;

/// Bytes of a cell.
pub const CELL_BYTES: u32 = 16;

/// 32-bit words of a cell.
pub const CELL_WORDS: u32 = CELL_BYTES / 4;

/// Cells of a step, which has the sixteen values of the reduction that one tensor-core instruction sums.
pub const STEP_CELLS: u32 = 2;

/// Words of the operand that one step has for 16 filters.
pub const OPERAND_WORDS: u32 = 4 * WARP_THREADS;

/// Filters of an operand.
pub const OPERAND_ROWS: u32 = 16;

/// Threads of the blocks that make packed input, filters and statistics.
pub const SPREAD_THREADS: u32 = 256;

/// Most elements of a sample that every block looks through before it packs its cells.
const SCANNED_ELEMENTS: u64 = 16 * 1024;

/// Most blocks of one sample in the second pass over the input.
const REPACKING_BLOCKS: u32 = 16;

/// Cells that a thread packs.
pub const CELLS_PER_THREAD: u32 = 4;

/// Most cells of the patch of one channel.
const MAX_PATCH_CELLS: u32 = 4096;

/// How values become operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandFormat {
    /// 16-bit parts of a value.
    pub parts: u32,
    /// Whether values are scaled by a power of two, so that an f16 can hold them.
    pub scaled: bool,
    /// How often the reduction is gone through, each time with other parts of filters and input ([`PASSES`]); 1 where a step
    /// multiplies all parts that are multiplied.
    pub passes: u32,
}

/// Parts of the filters and of the input that meet in each pass of [`OperandFormat::PARTS`], the smallest products first: low and high,
/// middle and middle, high and low, middle and high, high and middle, high and high. Tensor cores cut off from each sum in
/// proportion to it, so it should become large as late as can be.
pub const PASSES: [[u32; 2]; 6] = [[2, 0], [1, 1], [0, 2], [1, 0], [0, 1], [0, 0]];

impl OperandFormat {
    /// f32, split in two f16, 22 bits in all.
    pub const SPLIT: Self = Self {
        parts: 2,
        scaled: true,
        passes: 1,
    };
    /// f32, rounded to one f16, 11 bits.
    pub const ROUNDED: Self = Self {
        parts: 1,
        scaled: true,
        passes: 1,
    };
    /// f16 and bf16 as they are.
    pub const STORED: Self = Self {
        parts: 1,
        scaled: false,
        passes: 1,
    };
    /// f32 where no norm follows: three bf16, which are all of its 24 bits, and have its range, so that nothing is scaled, and what
    /// is small stays itself beside what is large. Products of less than `2^-24` of the largest are left out.
    pub const PARTS: Self = Self {
        parts: 3,
        scaled: false,
        passes: PASSES.len() as u32,
    };

    /// Whether operands are the values that are stored, as they are.
    #[must_use]
    pub const fn is_stored(self) -> bool {
        self.parts == 1 && !self.scaled
    }

    /// Parts that a step multiplies.
    #[must_use]
    pub const fn step_parts(self) -> u32 {
        if self.passes > 1 { 1 } else { self.parts }
    }
}

/// What a kernel of the product knows of its problem.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmGeometry {
    /// The convolution.
    pub conv: ConvGeometry,
    /// Channels of a pixel in a cell: 8, 4, 2 or 1.
    pub cell_channels: u32,
    /// Columns of the filter that one cell serves.
    pub cell_columns: u32,
    /// Cells that the columns of the filter take.
    pub column_taps: u32,
    /// Cells of a filter in each plane of a stage.
    pub taps: u32,
    /// Stages that a filter's depth takes: one, or one for each of its slices.
    pub depth_stages: u32,
    /// Slices of a filter in a stage.
    pub filter_slices: u32,
    /// Planes of cells that the channels of a group take.
    pub planes: u32,
    /// Depth of the packed input, which reaches as far as the last tile does.
    pub packed_d: u32,
    /// Rows of the packed input.
    pub packed_h: u32,
    /// Columns of the padded input that some window touches. The packed input has zeros for those behind.
    pub used_w: u32,
    /// Residues of a row.
    pub residues: u32,
    /// Columns of a residue.
    pub residue_columns: u32,
    /// Depth of a tile of pixels.
    pub tile_d: u32,
    /// Rows of a tile of pixels.
    pub tile_h: u32,
    /// Columns of a tile of pixels.
    pub tile_w: u32,
    /// Tiles along the depth.
    pub tiles_d: u32,
    /// Tiles along the rows.
    pub tiles_h: u32,
    /// Tiles along the columns.
    pub tiles_w: u32,
    /// From a pixel of a tile to the one a row below, in the block's order.
    pub tile_pitch: u32,
    /// From a pixel of a tile to the one a slice behind.
    pub slice_pitch: u32,
    /// From eight pixels of a warpgroup's tile to the next eight, in cells of the patch.
    pub octet_cells: u32,
    /// From an octet of pixels to the next one, and from that to the one behind it, in cells of the patch: where octets are multiplied in turn. Of two strips of a
    /// patch of lines the first of these leads to the other strip.
    pub octets_in_turn: [u32; 2],
    /// 1 if the two cells of a step are equally far apart in all steps, for warpgroups, else 0: then they are any
    /// two that follow one another.
    pub paired: u32,
    /// How many cells of the patch from the first one to the second, where they are neighbouring columns of taps in the one plane that
    /// there is; 0 where they are the same tap in two planes.
    pub pair_cells: u32,
    /// Strips of eight columns in a tile of octets; 0 in other layouts.
    pub strips: u32,
    /// Residues of the rows of a patch of octets.
    pub row_residues: u32,
    /// Rows of each of them.
    pub residue_rows: u32,
    /// Depth of what a tile's pixels touch.
    pub patch_d: u32,
    /// Rows of what a tile's pixels touch.
    pub patch_h: u32,
    /// Columns of a residue of a patch's row.
    pub patch_columns: u32,
    /// Cells of one part of one plane of a patch; some behind those of the input are read by pixels that are not used.
    pub patch_cells: u32,
    /// Tiles of filters in a group.
    pub filter_tiles: u32,
    /// Planes in a stage.
    pub stage_planes: u32,
    /// Planes that all stages of one slice of the filter have before those of the next slice follow, where slices are stages: those of one stage, or of two.
    pub slice_planes: u32,
    /// Stages.
    pub stages: u32,
    /// Tensor-core steps of a stage.
    pub steps: u32,
    /// Entries of the table of offsets: one for each cell of a stage and one behind, or for each step of pairs.
    pub offsets: u32,
    /// Rows of a pooling window; 0 where outputs are not pooled.
    pub pool_h: u32,
    /// Columns of a pooling window.
    pub pool_w: u32,
    /// Rows of whole windows in a tile.
    pub windows_h: u32,
    /// Columns of whole windows in a tile.
    pub windows_w: u32,
    /// Rows of the pooled output.
    pub pooled_h: u32,
    /// Columns of the pooled output.
    pub pooled_w: u32,
    /// 1 if the largest magnitude of a sample is found before it is packed, else 0: then it is
    /// found meanwhile, and a sample that was packed at the wrong scale is repacked.
    pub scans: u32,
    /// 1 if no norm of their own statistics follows the results: then there are no moments, and what comes out as NaN is
    /// computed again; else 0.
    pub alone: u32,
    /// Where the cells of an input lie that is not packed, or packed in lines.
    pub cells: CellStrides,
    /// How boxes are copied.
    pub pieces: Pieces,
    /// Neighbouring outputs in depth for which a tile has filters: 1; or 2, of which each half of a wide tile's filters makes one. Tiles, patches
    /// and the packed input are then those of a convolution with twice the stride in depth and filters of a slice more; `conv` is what was asked for.
    pub outputs_d: u32,
    /// Neighbouring channels whose moments become one: 1, or a power of two up to those of a warp of a wide tile.
    pub moment_channels: u32,
}

impl GemmGeometry {
    /// Tiles of the pixels of a sample.
    #[must_use]
    pub const fn pixel_tiles(&self) -> u32 {
        self.tiles_d * self.tiles_h * self.tiles_w
    }

    /// Tiles of pixels of all samples.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.conv.n * self.pixel_tiles() as u64
    }

    /// Tiles of filters of all groups.
    #[must_use]
    pub const fn filter_sets(&self) -> u32 {
        self.conv.groups * self.filter_tiles
    }

    /// Slices of the input from one slice of a tile to the next.
    #[must_use]
    #[inline(always)]
    pub const fn slice_stride(&self) -> u32 {
        self.conv.stride_d * self.outputs_d
    }

    /// Pooling windows of a tile.
    #[must_use]
    pub const fn windows(&self) -> u32 {
        self.windows_h * self.windows_w
    }

    /// Pixels of a tile that are used.
    #[must_use]
    pub const fn tile_pixels(&self) -> u32 {
        self.tile_d * self.tile_h * self.tile_w
    }

    /// Cells of a filter in one stage, in each pass.
    #[must_use]
    pub const fn stage_cells(&self) -> u32 {
        self.stage_planes * self.taps
    }

    /// Steps of pairs in one pass over a stage.
    #[must_use]
    pub const fn paired_steps(&self) -> u32 {
        match self.pair_cells {
            0 => self.stage_planes / STEP_CELLS * self.taps,
            _ => self.filter_slices * self.conv.r * self.row_pairs(),
        }
    }

    /// Pairs of the columns of taps. Of an odd number the last pair has one of the pair before again, whose filters are 0 there: no
    /// pair reads a column that no window has, in which there may be an infinity.
    #[must_use]
    pub const fn row_pairs(&self) -> u32 {
        self.column_taps.div_ceil(STEP_CELLS)
    }

    /// The first column of pair `pair`.
    #[must_use]
    #[inline(always)]
    pub const fn first_of_pair(&self, pair: u32) -> u32 {
        let (column, last) = (pair * STEP_CELLS, self.column_taps - STEP_CELLS);
        if column < last { column } else { last }
    }

    /// How many cells of the patch from a step's first cell to its second, where values have `parts` parts.
    #[must_use]
    pub const fn second_cell(&self, parts: u32) -> u32 {
        match self.pair_cells {
            0 => parts * self.patch_cells,
            cells => cells,
        }
    }

    /// Cells of one row of the packed input.
    #[must_use]
    pub const fn row_cells(&self) -> u32 {
        self.residues * self.residue_columns
    }

    /// Cells of one part of one plane.
    #[must_use]
    pub const fn plane_cells(&self) -> u32 {
        self.packed_d * self.packed_h * self.row_cells()
    }

    /// Cells of one row of a patch.
    #[must_use]
    pub const fn patch_row(&self) -> u32 {
        self.residues * self.patch_columns
    }

    /// Rows of a patch.
    #[must_use]
    pub const fn patch_rows(&self) -> u32 {
        match self.strips {
            0 => self.patch_d * self.patch_h,
            strips => {
                let rows = self.filter_slices * self.row_residues * self.residue_rows;
                rows * self.tile_d * strips
            }
        }
    }

    /// Cells of one part of one plane of a patch that are brought from the input, packed or not.
    #[must_use]
    pub const fn packed_patch_cells(&self) -> u32 {
        self.patch_rows() * self.patch_row()
    }

    /// Words of the operands of one group, of whose values each step multiplies `parts` parts.
    #[must_use]
    pub const fn filter_words(&self, tile: GemmTile, parts: u32) -> u64 {
        let operands = self.filter_tiles as u64 * (tile.filters() / OPERAND_ROWS) as u64;
        operands * (self.stages * self.steps) as u64 * (parts * OPERAND_WORDS) as u64
    }

    /// Elements of a sample of the input.
    #[must_use]
    pub const fn sample_elements(&self) -> u64 {
        self.conv.input_channels() as u64 * self.conv.input_pixels() as u64
    }

    /// Blocks that pack one plane of cells, or two of lines.
    #[must_use]
    pub const fn plane_blocks(&self) -> u32 {
        let cells = if self.has_lines() {
            self.conv.input_pixels()
        } else {
            self.plane_cells()
        };
        cells.div_ceil(SPREAD_THREADS * CELLS_PER_THREAD)
    }

    /// Planes of a group that are packed one by one, or two by two in lines.
    #[must_use]
    #[inline(always)]
    pub const fn packed_planes(&self) -> u32 {
        if self.has_lines() {
            self.planes / STEP_CELLS
        } else {
            self.planes
        }
    }

    /// Blocks that pack one sample.
    #[must_use]
    pub const fn sample_blocks(&self) -> u32 {
        self.conv.groups * self.packed_planes() * self.plane_blocks()
    }

    /// Launch of the kernel that packs the input, if its indices fit 32 bits.
    #[must_use]
    pub fn pack_shape(&self) -> Option<LaunchShape> {
        let planes = self.conv.groups.checked_mul(self.packed_planes())?;
        let blocks = planes.checked_mul(self.plane_blocks())?;
        LaunchShape::linear(self.conv.n.checked_mul(blocks.into())?, SPREAD_THREADS)
    }

    /// Blocks of one sample in the kernel that repacks; one that finds the scale, where the product rounds.
    #[must_use]
    pub fn repacking_blocks(&self) -> u32 {
        if self.is_rounded_on_its_way() {
            return 1;
        }
        self.sample_blocks().min(REPACKING_BLOCKS)
    }

    /// Launch of the kernel that repacks samples that need it.
    #[must_use]
    pub fn repack_shape(&self) -> Option<LaunchShape> {
        let blocks = self.conv.n.checked_mul(self.repacking_blocks().into())?;
        LaunchShape::linear(blocks, SPREAD_THREADS)
    }
}
