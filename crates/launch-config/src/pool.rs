//! Pools with any attributes. (`max_pool2d` has separate kernels for itself and its fusions, and
//! `overlapping` for overlapping windows. Averages of whole planes are reductions of rows, in
//! `row_reduction`.)
//!
//! Images are volumes of depth 1. A thread computes [`OUTPUTS_PER_THREAD`] windows, [`BLOCK_THREADS`] apart
//! in the flattened output. The windows of a warp are thus neighbours, and the loads of several are in
//! flight.

use super::max_pool2d::PoolGeometry;
use super::nhwc::{MAX_VECTORS, RunBlocks};
use super::norm::FAR;
use super::reciprocal::Reciprocal;
use super::{LaunchShape, Refusal};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks of the window kernel. One more block would leave too few registers on some
/// architectures.
pub const WINDOW_MIN_BLOCKS: u32 = 3;

/// Minimum resident blocks of the window kernels for channels-last tensors. Maxima of f32 would have too few
/// registers with one more block. Maxima of 16-bit values need fewer registers, and four blocks fit.
pub const NHWC_MIN_BLOCKS: u32 = 2;

/// Windows that a thread reduces.
pub const OUTPUTS_PER_THREAD: usize = 4;

/// Consecutive outputs of a block.
pub const BLOCK_OUTPUTS: u32 = BLOCK_THREADS * OUTPUTS_PER_THREAD as u32;

/// The result of a window.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowResult {
    /// The window's largest element.
    Maximum = 0,
    /// The window's sum divided by a given divisor.
    Divided = 1,
    /// The window's sum divided by the number of its elements in the padded input.
    AverageOfPadded = 2,
    /// The window's sum divided by the number of its elements in the input.
    Average = 3,
}

/// A pool of planes (or volumes) with the extents `input` to planes with the extents `output`. Axes are
/// depth, height, width.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowGeometry {
    /// Planes: samples times channels.
    pub planes: u64,
    /// Input extents.
    pub input: [u32; 3],
    /// Output extents.
    pub output: [u32; 3],
    /// Window extents.
    pub kernel: [u32; 3],
    /// Steps between windows.
    pub stride: [u32; 3],
    /// Padding on both sides of the input.
    pub padding: [u32; 3],
    /// Steps between the elements of a window.
    pub dilation: [u32; 3],
    /// The result of a window.
    pub result: WindowResult,
    /// The divisor of sums for [`WindowResult::Divided`].
    pub divisor: f32,
    /// Reciprocal of the outputs of a row.
    pub columns: Reciprocal,
    /// Reciprocal of the outputs of a slice.
    pub slice: Reciprocal,
    /// Reciprocal of the outputs of a plane, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl WindowGeometry {
    /// Returns the max pooling of images, as volumes of depth 1.
    #[must_use]
    pub const fn of_images(of: &PoolGeometry) -> Self {
        Self {
            planes: of.planes,
            input: [1, of.h, of.w],
            output: [1, of.p, of.q],
            kernel: [1, of.r, of.s],
            stride: [1, of.stride_h, of.stride_w],
            padding: [0, of.pad_h, of.pad_w],
            dilation: [1, of.dilation_h, of.dilation_w],
            result: WindowResult::Maximum,
            divisor: 1.0,
            columns: Reciprocal::of(1),
            slice: Reciprocal::of(1),
            near: Reciprocal::of(1),
        }
        .planned()
    }

    /// Returns the same pool with its derived fields.
    pub const fn planned(self) -> Self {
        let [z, p, q] = self.output;
        let outputs = z as u64 * p as u64 * q as u64;
        let near = if outputs < FAR as u64 {
            outputs as u32
        } else {
            FAR
        };
        Self {
            columns: Reciprocal::of(q),
            slice: Reciprocal::of(p * q),
            near: Reciprocal::of(near),
            ..self
        }
    }

    /// Whether the results are maxima.
    #[must_use]
    pub fn are_maxima(&self) -> bool {
        self.result == WindowResult::Maximum
    }

    /// Elements of a plane.
    pub const fn plane_elements(&self) -> u64 {
        let [d, h, w] = self.input;
        d as u64 * h as u64 * w as u64
    }

    /// Outputs of a plane.
    pub const fn plane_outputs(&self) -> u64 {
        let [z, p, q] = self.output;
        z as u64 * p as u64 * q as u64
    }

    /// The window kernel's launch.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let outputs = self.planes * self.plane_outputs();
        LaunchShape::linear(outputs.div_ceil(BLOCK_OUTPUTS as u64), BLOCK_THREADS)
    }
}

/// A pool of channels-last tensors; a thread computes runs of [`OUTPUTS_PER_THREAD`] windows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NhwcWindowGeometry {
    /// The pool of planes.
    pub windows: WindowGeometry,
    /// The distribution of runs over blocks.
    pub blocks: RunBlocks,
}

impl NhwcWindowGeometry {
    /// Returns the pool `windows` for channels-last tensors; `channels` consecutive planes are the channels
    /// of a sample.
    ///
    /// # Errors
    /// The refusals of [`RunBlocks::new`].
    pub fn new(windows: &WindowGeometry, channels: u32) -> Result<Self, Refusal> {
        let n = windows.planes.checked_div(channels.into()).unwrap_or(0);
        let [_, _, columns] = windows.input;
        let run = OUTPUTS_PER_THREAD as u32;
        Ok(Self {
            windows: *windows,
            blocks: RunBlocks::new((n, channels), columns, windows.output, run, MAX_VECTORS)?,
        })
    }

    /// The kernel's launch.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        self.blocks.shape()
    }
}
