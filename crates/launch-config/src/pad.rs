//! The padding kernel, for padding that is not zeros, or that differs between the two ends of an axis.
//!
//! As in `elementwise`, a block writes [`BLOCK_ELEMENTS`] consecutive elements of the output, independent of
//! planes.

use super::LaunchShape;
use super::elementwise::{BLOCK_ELEMENTS, BLOCK_THREADS};
use super::norm::FAR;
use super::reciprocal::Reciprocal;
use op_spec::PaddingMode;

/// Padded planes: `[planes, depth, rows, columns]`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PadGeometry {
    /// Elements of the output.
    pub elements: u64,
    /// Planes: samples times channels.
    pub planes: u64,
    /// Reciprocal of the elements of an output plane, at most [`FAR`].
    pub near: Reciprocal,
    /// Rows of the output.
    pub rows: Reciprocal,
    /// Columns of the output.
    pub columns: Reciprocal,
    /// Elements of an output plane.
    pub plane: u32,
    /// Extents of the input: depth, rows, columns.
    pub inner: [u32; 3],
    /// Padding before the first element of each axis.
    pub before: [u32; 3],
    /// The values of the padding.
    pub mode: PaddingMode,
}

impl PadGeometry {
    /// Returns the divisor by which a block finds the plane of an element, for planes of `plane` elements.
    pub(crate) fn near(plane: u64) -> Reciprocal {
        Reciprocal::of(plane.clamp(1, u64::from(FAR)) as u32)
    }

    /// The kernel's launch.
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.elements.div_ceil(BLOCK_ELEMENTS as u64), BLOCK_THREADS)
    }
}
