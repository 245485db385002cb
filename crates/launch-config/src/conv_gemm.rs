//! `conv2d` and `conv3d` as im2col and a GEMM.
//!
//! `im2col` writes the column matrix `[sample][input channel, tap][pixel]`; the product of a
//! group's filter matrix with it is the output. The column matrix is [taps] times the input, so it
//! is never whole: a [`ColumnPlan`] cuts the batch, and a sample if need be, into chunks whose
//! columns fit a workspace, and the two kernels run chunk by chunk.
//!
//! Columns are stored with a pitch that is a multiple of [`VECTOR_ELEMENTS`], the surplus being
//! zeros, so that both kernels move whole aligned vectors whatever the output's size is.
//!
//! [taps]: ConvGeometry::taps

use super::conv::ConvGeometry;
use super::{LaunchShape, VECTOR_ELEMENTS};

/// Threads of an im2col block; each makes a vector of pixels of every tap of one channel.
pub const IM2COL_THREADS: u32 = 256;

/// Threads of a GEMM block.
pub const GEMM_THREADS: u32 = 128;

/// Rows of the reduction in a stage of shared memory; there are two stages.
pub const TILE_REDUCTION: u32 = 8;

/// Vectors of output columns of a thread.
pub const COLUMN_VECTORS: u32 = 2;

/// What a GEMM block computes: `rows()` output channels of `columns()` pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnGemmTile {
    /// Rows of threads.
    pub thread_rows: u32,
    /// Vectors of output rows of a thread.
    pub row_vectors: u32,
}

/// The ordinary tile: 64 channels of 128 pixels, 8 x 8 a thread.
pub const TALL: ColumnGemmTile = ColumnGemmTile {
    thread_rows: 8,
    row_vectors: 2,
};

/// The tile for groups of few output channels: 16 channels of 256 pixels, 4 x 8 a thread.
pub const FLAT: ColumnGemmTile = ColumnGemmTile {
    thread_rows: 4,
    row_vectors: 1,
};

impl ColumnGemmTile {
    /// The label of the tile's kernels; `None` if there are none.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            TALL => Some("tall"),
            FLAT => Some("flat"),
            _ => None,
        }
    }

    /// Columns of threads.
    pub const fn thread_columns(self) -> u32 {
        GEMM_THREADS / self.thread_rows
    }

    /// Output channels of a block.
    pub const fn rows(self) -> u32 {
        self.thread_rows * self.row_vectors * VECTOR_ELEMENTS as u32
    }

    /// Output pixels of a block.
    pub const fn columns(self) -> u32 {
        self.thread_columns() * COLUMN_VECTORS * VECTOR_ELEMENTS as u32
    }

    /// Elements between rows of the filter tile in shared memory. One vector more than the tile
    /// is wide: the threads that store a transposed row then hit different banks.
    pub const fn filter_pitch(self) -> u32 {
        self.rows() + VECTOR_ELEMENTS as u32
    }

    /// Elements of both filter tiles in shared memory.
    pub const fn filter_elements(self) -> usize {
        (2 * TILE_REDUCTION * self.filter_pitch()) as usize
    }

    /// Elements of both column tiles in shared memory.
    pub const fn column_elements(self) -> usize {
        (2 * TILE_REDUCTION * self.columns()) as usize
    }
}

/// A part of the convolution whose column matrix is in the workspace at one time.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// First sample.
    pub first_sample: u64,
    /// Samples.
    pub samples: u64,
    /// First output pixel of each sample, a multiple of [`VECTOR_ELEMENTS`].
    pub first_pixel: u32,
    /// Output pixels of each sample.
    pub pixels: u32,
    /// Elements between rows of the column matrix: `pixels`, rounded up to whole vectors.
    pub pitch: u32,
}

impl Chunk {
    /// Launch of `im2col`: the pixels of one channel of one sample are neighbours.
    pub const fn im2col_shape(&self, conv: &ConvGeometry) -> Option<LaunchShape> {
        let vectors = self.pitch / VECTOR_ELEMENTS as u32;
        LaunchShape::linear(
            self.samples * conv.input_channels() as u64 * vectors.div_ceil(IM2COL_THREADS) as u64,
            IM2COL_THREADS,
        )
    }

    /// Launch of the GEMM with `tile`. Blocks of the same columns are consecutive, so that they find the
    /// columns in cache.
    pub const fn gemm_shape(
        &self,
        conv: &ConvGeometry,
        tile: ColumnGemmTile,
    ) -> Option<LaunchShape> {
        let row_tiles = conv.group_k.div_ceil(tile.rows()) as u64;
        let column_tiles = self.pixels.div_ceil(tile.columns()) as u64;
        LaunchShape::linear(
            self.samples * conv.groups as u64 * row_tiles * column_tiles,
            GEMM_THREADS,
        )
    }
}

/// How a convolution is cut into [`Chunk`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnPlan {
    /// Samples of the batch.
    n: u64,
    /// Output pixels of a sample.
    output_pixels: u32,
    /// Rows of one sample's column matrix.
    sample_rows: u64,
    /// Samples of a chunk, 1 if samples are cut.
    chunk_samples: u64,
    /// Pixels of a chunk, all of them if samples are not cut.
    chunk_pixels: u32,
}

impl ColumnPlan {
    /// The plan whose column matrix takes at most `workspace` elements; `None` if not even one vector of
    /// pixels fits.
    pub const fn new(conv: &ConvGeometry, workspace: u64) -> Option<Self> {
        let output_pixels = conv.output_pixels();
        let sample_rows = conv.groups as u64 * conv.reduction() as u64;
        let vector = VECTOR_ELEMENTS as u64;
        let pitch = (output_pixels as u64).next_multiple_of(vector);
        let samples = workspace / (sample_rows * pitch);
        if samples > 0 {
            return Some(Self {
                n: conv.n,
                output_pixels,
                sample_rows,
                chunk_samples: if samples < conv.n { samples } else { conv.n },
                chunk_pixels: output_pixels,
            });
        }
        let vectors = workspace / (sample_rows * vector);
        if vectors == 0 {
            return None;
        }
        Some(Self {
            n: conv.n,
            output_pixels,
            sample_rows,
            chunk_samples: 1,
            chunk_pixels: (vectors * vector) as u32,
        })
    }

    /// Elements of the workspace that the largest chunk uses.
    pub const fn workspace_elements(&self) -> u64 {
        let pitch = (self.chunk_pixels as u64).next_multiple_of(VECTOR_ELEMENTS as u64);
        self.chunk_samples * self.sample_rows * pitch
    }

    /// The chunks, in the order of the output.
    pub fn chunks(self) -> impl Iterator<Item = Chunk> {
        let sample_starts = (0..self.n).step_by(self.chunk_samples.max(1) as usize);
        sample_starts.flat_map(move |first_sample| {
            let pixel_starts = (0..self.output_pixels).step_by(self.chunk_pixels as usize);
            pixel_starts.map(move |first_pixel| {
                let pixels = self.chunk_pixels.min(self.output_pixels - first_pixel);
                Chunk {
                    first_sample,
                    samples: self.chunk_samples.min(self.n - first_sample),
                    first_pixel,
                    pixels,
                    pitch: pixels.next_multiple_of(VECTOR_ELEMENTS as u32),
                }
            })
        })
    }
}

impl ConvGeometry {
    /// The tile of the GEMM.
    pub const fn gemm_tile(&self) -> ColumnGemmTile {
        if self.group_k <= FLAT.rows() {
            FLAT
        } else {
            TALL
        }
    }
}
