//! Pools whose windows are parts of rows and overlap.
//!
//! A block computes a *segment*, consecutive outputs of a row, from shared memory: it loads the elements of
//! the segment's windows once.

use super::LaunchShape;
use super::pool::WindowGeometry;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 128;

/// Outputs of a thread, a block's width apart.
pub const OUTPUTS_PER_THREAD: usize = 8;

/// Outputs of a segment.
pub const SEGMENT: u32 = BLOCK_THREADS * OUTPUTS_PER_THREAD as u32;

/// Minimum resident blocks of the kernels per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 8;

/// The maximum number of elements of a segment's windows: a sixth of the shared memory of a multiprocessor.
const MAX_STAGED: u64 = 8192;

/// A pool of rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolRowsGeometry {
    /// The pool. Windows have one row and one slice.
    pub windows: WindowGeometry,
    /// Segments of a row of outputs.
    pub segments: u32,
    /// Elements of a segment's windows, with the padding.
    pub staged: u32,
}

impl PoolRowsGeometry {
    /// Returns the pool in segments. Returns `None` if windows have several rows or do not overlap, if rows
    /// fill less than three quarters of their segments, or if other kernels need fewer instructions.
    #[must_use]
    pub fn new(windows: &WindowGeometry) -> Option<Self> {
        let geometry = Self::in_segments(windows)?;
        let columns = u64::from(windows.output[2]);
        let places = u64::from(geometry.segments) * u64::from(SEGMENT);
        let [taps, stride] = [windows.kernel[2], windows.stride[2]].map(u64::from);
        // For each output: a load and an addition or comparison for each tap, and the stride's elements.
        let (instructions, alone) = (3 * taps + 12 * stride + 20, 14 * taps + 20);
        (4 * columns >= 3 * places && instructions <= alone).then_some(geometry)
    }

    /// Returns the pool in segments, whether that is faster or not. Returns `None` if windows have several
    /// rows, or if a segment's windows have too many elements.
    #[must_use]
    pub fn in_segments(windows: &WindowGeometry) -> Option<Self> {
        let are_rows = (0..2).all(|axis| {
            windows.kernel[axis] == 1 && windows.stride[axis] == 1 && windows.padding[axis] == 0
        });
        let between = u64::from(SEGMENT - 1) * u64::from(windows.stride[2]);
        let window = u64::from(windows.kernel[2] - 1) * u64::from(windows.dilation[2]);
        let staged = between + window + 1;
        (are_rows && staged <= MAX_STAGED).then_some(Self {
            windows: *windows,
            segments: windows.output[2].div_ceil(SEGMENT),
            staged: staged as u32,
        })
    }

    /// Rows of outputs.
    #[must_use]
    #[inline(always)]
    pub const fn rows(&self) -> u64 {
        let [d, h, _] = self.windows.output;
        self.windows.planes * (d as u64 * h as u64)
    }

    /// The kernels' launch.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.rows().checked_mul(self.segments.into())?;
        let shape = LaunchShape::linear(blocks, BLOCK_THREADS)?;
        Some(shape.with_shared(self.staged * size_of::<f32>() as u32))
    }
}
