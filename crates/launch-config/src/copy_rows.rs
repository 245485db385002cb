//! `copy_rows`: rows of a dense tensor put into wider rows of another, or taken out of such.
//!
//! Both tensors are rows of equal length, the *pitch*. A copy takes the same range of elements of each row.
//! Along the channels this is a part of a sample in NCHW, and a part of a pixel in NHWC, so `cat` and
//! `narrow` are such copies in both layouts.
//!
//! Where lengths, pitches and ranges are whole vectors, a *unit* is a vector of [`VECTOR_ELEMENTS`] elements,
//! elsewhere one element.

use super::norm::FAR;
use super::reciprocal::Reciprocal;
use super::{LaunchShape, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Blocks that a multiprocessor should hold.
pub const MIN_BLOCKS: u32 = 5;

/// Units that a thread copies, all of which are loaded before the first is stored.
pub const UNITS_PER_THREAD: usize = 4;

/// Units of a block, consecutive ones.
pub const BLOCK_UNITS: u32 = BLOCK_THREADS * UNITS_PER_THREAD as u32;

/// Where a copy finds its rows in a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsOf {
    /// Elements from the start of a row to that of the next.
    pub pitch: u64,
    /// The first element of each row that takes part.
    pub start: u64,
}

/// A copy of parts of rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsGeometry {
    /// Rows.
    pub rows: u64,
    /// Units of a row that are copied.
    pub row_units: u64,
    /// Where they are read.
    pub source: RowsOf,
    /// Where they are written.
    pub target: RowsOf,
    /// Elements of a unit: 1 or [`VECTOR_ELEMENTS`].
    pub unit_elements: u32,
    /// Reciprocal of the units of a row, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl RowsGeometry {
    /// A copy of `elements` of each of so many rows, between tensors that start on a vector.
    #[must_use]
    pub const fn new(rows: u64, elements: u64, source: RowsOf, target: RowsOf) -> Self {
        let all = elements | source.pitch | source.start | target.pitch | target.start;
        let unit = if all.is_multiple_of(VECTOR_ELEMENTS as u64) {
            VECTOR_ELEMENTS as u64
        } else {
            1
        };
        let row_units = elements / unit;
        let near = if row_units < FAR as u64 {
            row_units as u32
        } else {
            FAR
        };
        Self {
            rows,
            row_units,
            source,
            target,
            unit_elements: unit as u32,
            near: Reciprocal::of(near),
        }
    }

    /// Units of all rows.
    #[must_use]
    #[inline(always)]
    pub const fn units(&self) -> u64 {
        self.rows * self.row_units
    }

    /// Launch of the kernel, if it fits a grid.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.units().div_ceil(BLOCK_UNITS as u64), BLOCK_THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_vectors_where_everything_is() {
        let of = |pitch, start| RowsOf { pitch, start };
        let unit =
            |elements, source, target| RowsGeometry::new(3, elements, source, target).unit_elements;
        assert_eq!(unit(8, of(8, 0), of(24, 16)), 4);
        assert_eq!(unit(6, of(8, 0), of(24, 16)), 1);
        assert_eq!(unit(8, of(10, 0), of(24, 16)), 1);
        assert_eq!(unit(8, of(8, 0), of(24, 2)), 1);
        let shape = RowsGeometry::new(1000, 8, of(8, 0), of(24, 16)).shape();
        assert_eq!(shape.map(|shape| shape.grid[0]), Some(2));
    }
}
