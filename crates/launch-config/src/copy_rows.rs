//! `copy_rows`: copies rows of a dense tensor into wider rows of another one, or out of them.
//!
//! Both tensors consist of rows of equal length, the *pitch*. A copy takes the same range of elements of each
//! row. A range of channels is a part of each sample in NCHW, and a part of each pixel in NHWC. `cat` and
//! `narrow` are therefore copies of this kind in both layouts.
//!
//! A *unit* is a vector of [`VECTOR_ELEMENTS`] elements if lengths, pitches and ranges are whole vectors, and
//! one element otherwise.

use super::norm::FAR;
use super::reciprocal::Reciprocal;
use super::{LaunchShape, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 5;

/// Units that a thread copies; it loads all of them before it stores the first one.
pub const UNITS_PER_THREAD: usize = 4;

/// Consecutive units of a block.
pub const BLOCK_UNITS: u32 = BLOCK_THREADS * UNITS_PER_THREAD as u32;

/// The rows of a copy in one of its tensors.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsOf {
    /// Elements from the start of a row to the start of the next one.
    pub pitch: u64,
    /// The first copied element of each row.
    pub start: u64,
}

/// A copy of parts of rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsGeometry {
    /// Rows.
    pub rows: u64,
    /// Copied units of a row.
    pub row_units: u64,
    /// The rows to read.
    pub source: RowsOf,
    /// The rows to write.
    pub target: RowsOf,
    /// Elements of a unit: 1 or [`VECTOR_ELEMENTS`].
    pub unit_elements: u32,
    /// Reciprocal of the units of a row, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl RowsGeometry {
    /// Returns a copy of `elements` elements of each of `rows` rows, between tensors that are aligned to
    /// vectors.
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

    /// The kernel's launch; `None` if it exceeds a grid.
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
