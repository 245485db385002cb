//! Reductions of rows: contiguous values to one value each.
//!
//! A row is divided into *parts* of [`PART_ELEMENTS`]; a warp reduces each part. If there are several, their
//! results form a row, which the next launch reduces, and so on. The parts depend on the row's length alone;
//! a sample's results are therefore bit-identical for any batch size.

use super::{ElementType, LaunchShape, WARP_THREADS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// Elements of a row that a warp reduces.
pub const PART_ELEMENTS: u64 = 4096;

/// Warps of a block.
pub const BLOCK_WARPS: u32 = BLOCK_THREADS / WARP_THREADS;

/// A reduction of the parts of rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowGeometry {
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub elements: u64,
    /// Parts of a row.
    pub parts: u64,
    /// The divisor of a mean.
    pub divisor: f32,
    /// The element type of the results.
    pub output: ElementType,
}

impl RowGeometry {
    /// Returns the reduction of `rows` rows of `elements` elements to f32.
    #[must_use]
    pub const fn new(rows: u64, elements: u64) -> Self {
        Self {
            rows,
            elements,
            parts: elements.div_ceil(PART_ELEMENTS),
            divisor: elements as f32,
            output: ElementType::F32,
        }
    }

    /// Number of results: one for each part of each row.
    #[must_use]
    pub const fn results(&self) -> u64 {
        self.rows * self.parts
    }

    /// The kernel's launch.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.results().div_ceil(BLOCK_WARPS as u64);
        LaunchShape::linear(blocks, BLOCK_THREADS)
    }
}
