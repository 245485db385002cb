//! A convolution as an implicit GEMM on tensor cores: the im2col matrix is never written.
//!
//! The kernel of the *filters* puts filters into the order of tensor core operands, once for a model. Four
//! kernels run for each input; `kernels_gpu::fused::implicit_gemm` says how they work.
//! 1. The *reformat*: the input, padded, as *K-vectors* of eight 16-bit values, so one K-vector is one row of
//!    a tensor core operand wherever it lies. K-vectors lie in planes, or in NHWC order (`nhwc_tile`). A
//!    channels-last input needs no reformat (`channels_last`).
//! 2. The *rescale*: reformats the f32 samples again whose magnitudes do not suit the optimistic scale.
//! 3. The implicit GEMM. A block has a *tile* of filters times pixels. It loads the *halo tile*, the part of
//!    the input that its pixels touch, into shared memory, one *K block* of channels at a time.
//! 4. The *combine*, if there are many tiles: combines the moments of all tiles of a norm's row.
//!
//! Filters that are not kept from run to run need not be put in order: warp-specialized tiles read
//! channels-last filters in place (`filters`).
//!
//! # The reformatted input
//! A K-vector holds eight channels of one pixel. Where a group has at most four channels, it holds those of
//! several neighbouring columns instead, so that few of its values are padding: two columns of four channels,
//! four of two, or eight of one. One K-vector then serves that many columns of the filter, and a *tap* is the
//! part of a filter that one K-vector serves.
//!
//! Columns that are a stride apart lie next to each other: column `w` is K-vector `w / stride` of the *stride
//! phase* `w % stride`. So neighbouring pixels of the output are neighbours in the reformatted input.

use super::conv::ConvGeometry;
use super::{LaunchShape, WARP_THREADS};

mod architectures;
mod channels_last;
mod choice;
mod combining;
mod config;
mod costs;
mod dense_f32;
mod epilogue;
mod filters;
mod k_blocks;
mod layout;
mod nhwc_tile;
mod operands;
mod pixels;
mod reduced;
mod reformatted;
mod shuffle;
pub(crate) mod sm100;
pub mod sm80;
pub mod sm90;
mod staged_f32;
mod tile;
mod tiles;

pub use channels_last::{KVectorStrides, Loader};
pub use combining::{COMBINED_BY_THREAD, Combining, combining};
pub use config::{ASSUMED_BATCH, GemmConfig, GemmDevice};
pub use epilogue::{Epilogue, EpilogueKind, RoundedEpilogue, RoundedFunction};
pub use filters::FilterLoader;
pub use layout::{Layout, OUTSIDE, PLACE_BITS, TILE_PADDING, TILE_WORDS};
pub use operands::{BF16X3_PRODUCTS, MmaOperands, OperandFormat, Prescale};
pub use reduced::{MAX_REDUCED_FILTERS, REDUCED_PIXELS, ReducedResults, ResultReduction};
pub use shuffle::{PhaseTaps, PixelShuffle};
pub use sm80::{M16N64, M16N256, M32N128, M64N32, M64N128};
pub use sm90::block::{STAGED_K_VECTOR_WORDS, STAGED_TILE_WORDS};
pub use sm90::{TILES, W64N128, WARP_SPECIALIZED};
pub use staged_f32::{STAGED_WIDTH, StagedTiles};
pub use tile::{GemmTile, MMA_BATCH_STEPS, Mainloop, PROMOTION_MMA_STEPS};

/// Threads of a block of the implicit GEMM.
pub const BLOCK_THREADS: u32 = 4 * WARP_THREADS;

/// Values of a K-vector.
pub const K_VECTOR_VALUES: u32 = 8;

/// Bytes of a K-vector.
pub const K_VECTOR_BYTES: u32 = 16;

/// 32-bit words of a K-vector.
pub const K_VECTOR_WORDS: u32 = K_VECTOR_BYTES / 4;

/// K-vectors of an MMA step: K is 16 in one tensor-core instruction.
pub const MMA_STEP_K_VECTORS: u32 = 2;

/// Words of the A operand of an MMA step for 16 filters.
pub const OPERAND_WORDS: u32 = 4 * WARP_THREADS;

/// Filters of an operand.
pub const OPERAND_ROWS: u32 = 16;

/// Threads of the blocks that reformat inputs, lay out filters, and combine statistics.
pub const SPREAD_THREADS: u32 = 256;

/// The largest sample that every block scans for its magnitude before it reformats its K-vectors.
const SCANNED_ELEMENTS: u64 = 16 * 1024;

/// The most blocks of a sample in the rescale.
const RESCALING_BLOCKS: u32 = 16;

/// K-vectors that a thread reformats.
pub const K_VECTORS_PER_THREAD: u32 = 4;

/// The most K-vectors in a plane of a halo tile.
const MAX_HALO_K_VECTORS: u32 = 4096;

/// The by-value argument of the implicit GEMM's kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImplicitGemmGeometry {
    /// The convolution.
    pub conv: ConvGeometry,
    /// Channels of a pixel in a K-vector: 8, 4, 2 or 1.
    pub k_vector_channels: u32,
    /// Columns of the filter that one K-vector serves.
    pub k_vector_columns: u32,
    /// K-vectors for the columns of the filter.
    pub column_taps: u32,
    /// K-vectors of a filter in each plane of a K block.
    pub taps: u32,
    /// K blocks for a filter's depth: one, or one for each of its slices.
    pub depth_k_blocks: u32,
    /// Slices of a filter in a K block.
    pub filter_slices: u32,
    /// Planes of K-vectors for the channels of a group.
    pub planes: u32,
    /// Depth of the reformatted input, up to the end of the last tile's halo.
    pub reformatted_d: u32,
    /// Rows of the reformatted input.
    pub reformatted_h: u32,
    /// Columns of the padded input that some window touches. The reformatted input has zeros behind them.
    pub used_w: u32,
    /// Stride phases of a row.
    pub stride_phases: u32,
    /// Columns of a stride phase.
    pub stride_phase_columns: u32,
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
    /// Distance between the pixels of neighbouring rows, in the order of the tile's pixels.
    pub tile_pitch: u32,
    /// Distance between the pixels of neighbouring slices.
    pub slice_pitch: u32,
    /// Distance between consecutive octets of a warpgroup's tile, in K-vectors of the halo tile.
    pub octet_k_vectors: u32,
    /// Where even and odd octets are multiplied separately, the distances from an even octet to the next odd
    /// one, and from that to the next even one, in K-vectors of the halo tile. With two strips of an NHWC
    /// halo tile, odd octets are of the other strip.
    pub interleaved_octets: [u32; 2],
    /// How MMA steps read the halo tile.
    pub operands: MmaOperands,
    /// Distance between the two K-vectors of an MMA step, in K-vectors of the halo tile, if they are
    /// neighbouring columns of taps of the only plane. It is 0 if they are the same tap in two planes.
    pub pair_k_vectors: u32,
    /// Strips of eight columns in a tile of octets; 0 in other layouts.
    pub strips: u32,
    /// Stride phases of the rows of a halo tile of octets.
    pub row_stride_phases: u32,
    /// Rows of the halo tile in each stride phase.
    pub stride_phase_rows: u32,
    /// Depth of the halo tile.
    pub halo_d: u32,
    /// Rows of the input that a tile's pixels touch.
    pub halo_h: u32,
    /// Columns of a stride phase of a halo tile's row.
    pub halo_columns: u32,
    /// K-vectors of one part of one plane of a halo tile, including K-vectors behind the input's that only
    /// unused pixels read.
    pub halo_k_vectors: u32,
    /// Tiles of filters in a group.
    pub filter_tiles: u32,
    /// Planes in a K block.
    pub k_block_planes: u32,
    /// Planes of the consecutive K blocks of one filter slice (one K block or two), if slices of the filter
    /// are K blocks. The K blocks of the next slice follow.
    pub slice_planes: u32,
    /// The number of K blocks.
    pub k_blocks: u32,
    /// Tensor-core steps of a K block.
    pub mma_steps: u32,
    /// Entries of the table of offsets: one for each K-vector of a K block and one more or, with matrix
    /// descriptors, one for each MMA step.
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
    /// How the reformat finds the scale of a sample.
    pub prescale: Prescale,
    /// How the epilogue treats results.
    pub epilogue: EpilogueKind,
    /// Strides of the K-vectors of a channels-last input, or of one reformatted to NHWC.
    pub k_vectors: KVectorStrides,
    /// How the boxes of an NHWC halo tile are copied.
    pub staged_tiles: StagedTiles,
    /// The loader of the filters.
    pub filters: FilterLoader,
    /// Neighbouring outputs in depth of a tile: 1, or 2, one for each half of a warp-specialized tile's
    /// filters. With 2, tiles, halo tiles and the reformatted input are those of a convolution with twice the
    /// stride in depth and one more filter slice; `conv` is the convolution itself.
    pub outputs_d: u32,
    /// Neighbouring channels that share their moments: 1, or a power of two up to the filters of a warp of a
    /// warp-specialized tile.
    pub moment_channels: u32,
    /// The pixel shuffle that turns neighbouring filters into columns of the output, if there is one.
    pub shuffle: PixelShuffle,
}

impl ImplicitGemmGeometry {
    /// Tiles of the pixels of a sample.
    #[must_use]
    pub const fn pixel_tiles(&self) -> u32 {
        self.tiles_d * self.tiles_h * self.tiles_w
    }

    /// Tiles of pixels of all samples.
    #[must_use]
    pub const fn work_tiles(&self) -> u64 {
        self.conv.n * self.pixel_tiles() as u64
    }

    /// Results of all filters and pixels.
    #[must_use]
    pub const fn results(&self) -> u64 {
        let channels = self.conv.output_channels() as u64;
        self.conv.n * channels * self.conv.output_pixels() as u64
    }

    /// Tiles of filters of all groups.
    #[must_use]
    pub const fn filter_sets(&self) -> u32 {
        self.conv.groups * self.filter_tiles
    }

    /// Slices of the input between neighbouring slices of a tile.
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

    /// K-vectors of a filter in one K block, in each pass.
    #[must_use]
    pub const fn k_block_k_vectors(&self) -> u32 {
        self.k_block_planes * self.taps
    }

    /// MMA steps of pairs of K-vectors in one pass over a K block.
    #[must_use]
    pub const fn paired_mma_steps(&self) -> u32 {
        match self.pair_k_vectors {
            0 => self.k_block_planes / MMA_STEP_K_VECTORS * self.taps,
            _ => self.filter_slices * self.conv.r * self.row_pairs(),
        }
    }

    /// Pairs of columns of taps. With an odd number of columns, the last pair repeats a column of the pair
    /// before, with filters of 0. So no pair reads a column outside of all windows, which might hold an
    /// infinity.
    #[must_use]
    pub const fn row_pairs(&self) -> u32 {
        self.column_taps.div_ceil(MMA_STEP_K_VECTORS)
    }

    /// The first column of pair `pair`.
    #[must_use]
    #[inline(always)]
    pub const fn first_of_pair(&self, pair: u32) -> u32 {
        let (column, last) = (
            pair * MMA_STEP_K_VECTORS,
            self.column_taps - MMA_STEP_K_VECTORS,
        );
        if column < last { column } else { last }
    }

    /// Distance of a step's two K-vectors in the halo tile, in K-vectors, for values of `parts` parts.
    #[must_use]
    pub const fn second_k_vector(&self, parts: u32) -> u32 {
        match self.pair_k_vectors {
            0 => parts * self.halo_k_vectors,
            k_vectors => k_vectors,
        }
    }

    /// K-vectors of one row of the reformatted input.
    #[must_use]
    pub const fn row_k_vectors(&self) -> u32 {
        self.stride_phases * self.stride_phase_columns
    }

    /// K-vectors of one part of one plane.
    #[must_use]
    pub const fn plane_k_vectors(&self) -> u32 {
        self.reformatted_d * self.reformatted_h * self.row_k_vectors()
    }

    /// K-vectors of one row of a halo tile.
    #[must_use]
    pub const fn halo_row(&self) -> u32 {
        self.stride_phases * self.halo_columns
    }

    /// Rows of a halo tile.
    #[must_use]
    pub const fn halo_rows(&self) -> u32 {
        match self.strips {
            0 => self.halo_d * self.halo_h,
            strips => {
                let rows = self.filter_slices * self.row_stride_phases * self.stride_phase_rows;
                rows * self.tile_d * strips
            }
        }
    }

    /// K-vectors of one part of one plane of a halo tile that are loaded from the input, reformatted or not.
    #[must_use]
    pub const fn reformatted_halo_k_vectors(&self) -> u32 {
        self.halo_rows() * self.halo_row()
    }

    /// Words of the A operands of one group, with `parts` parts in an MMA step.
    #[must_use]
    pub const fn filter_words(&self, tile: GemmTile, parts: u32) -> u64 {
        let operands = self.filter_tiles as u64 * (tile.filters() / OPERAND_ROWS) as u64;
        operands * (self.k_blocks * self.mma_steps) as u64 * (parts * OPERAND_WORDS) as u64
    }

    /// Elements of a sample of the input.
    #[must_use]
    pub const fn sample_elements(&self) -> u64 {
        self.conv.input_channels() as u64 * self.conv.input_pixels() as u64
    }

    /// Blocks that reformat one plane of K-vectors, or a pair of planes for NHWC.
    #[must_use]
    pub const fn plane_blocks(&self) -> u32 {
        let k_vectors = if self.has_nhwc_tile() {
            self.conv.input_pixels()
        } else {
            self.plane_k_vectors()
        };
        k_vectors.div_ceil(SPREAD_THREADS * K_VECTORS_PER_THREAD)
    }

    /// Planes of a group that are reformatted at a time: single planes, or pairs of planes for NHWC.
    #[must_use]
    #[inline(always)]
    pub const fn reformatted_planes(&self) -> u32 {
        if self.has_nhwc_tile() {
            self.planes / MMA_STEP_K_VECTORS
        } else {
            self.planes
        }
    }

    /// Blocks that reformat one sample.
    #[must_use]
    pub const fn sample_blocks(&self) -> u32 {
        self.conv.groups * self.reformatted_planes() * self.plane_blocks()
    }

    /// Launch of the kernel that reformats the input, if its indices fit 32 bits.
    #[must_use]
    pub fn reformat_shape(&self) -> Option<LaunchShape> {
        let planes = self.conv.groups.checked_mul(self.reformatted_planes())?;
        let blocks = planes.checked_mul(self.plane_blocks())?;
        LaunchShape::linear(self.conv.n.checked_mul(blocks.into())?, SPREAD_THREADS)
    }

    /// Blocks of a sample in the rescale. If the producer converts, it is one block, which only finds the
    /// scale.
    #[must_use]
    pub fn rescaling_blocks(&self) -> u32 {
        if self.is_converted_in_producer() {
            return 1;
        }
        self.sample_blocks().min(RESCALING_BLOCKS)
    }

    /// Launch of the rescale, which reformats again the samples that need it.
    #[must_use]
    pub fn rescale_shape(&self) -> Option<LaunchShape> {
        let blocks = self.conv.n.checked_mul(self.rescaling_blocks().into())?;
        LaunchShape::linear(blocks, SPREAD_THREADS)
    }
}
