//! Inputs with a border around each plane (or volume), for convolutions that do not read zeros on both sides
//! alike.
//!
//! As in `elementwise`, a block owns [`BLOCK_ELEMENTS`] consecutive elements of the output, whatever the
//! planes in it are.

use super::LaunchShape;
use super::elementwise::{BLOCK_ELEMENTS, BLOCK_THREADS};
use super::norm::FAR;
use super::reciprocal::Reciprocal;

/// Planes with a border: `[planes, depth, rows, columns]`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PadGeometry {
    /// Elements of the output.
    pub elements: u64,
    /// Planes: samples times channels.
    pub planes: u64,
    /// Elements of an output plane, as far as a block sees one.
    pub near: Reciprocal,
    /// Rows of the output.
    pub rows: Reciprocal,
    /// Columns of the output.
    pub columns: Reciprocal,
    /// Elements of an output plane.
    pub plane: u32,
    /// Extents of the input: depth, rows, columns.
    pub inner: [u32; 3],
    /// Elements of the border before the first of each axis.
    pub before: [u32; 3],
    /// What the border is: `PaddingMode` as a number.
    pub mode: u32,
}

impl PadGeometry {
    /// By what a block tells planes of `plane` elements apart.
    pub(crate) fn near(plane: u64) -> Reciprocal {
        Reciprocal::of(plane.clamp(1, u64::from(FAR)) as u32)
    }

    /// Launch of the kernel.
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.elements.div_ceil(BLOCK_ELEMENTS as u64), BLOCK_THREADS)
    }
}
