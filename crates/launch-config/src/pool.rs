//! Pools of windows of any attributes, and averages of whole planes. (`max_pool2d` and its fusions have
//! kernels of their own, in `max_pool2d`.)
//!
//! A pool of images is one of volumes that are one voxel deep. A thread takes [`OUTPUTS_PER_THREAD`] windows
//! side by side, a block's width apart in the flattened output, so that a warp's windows are neighbours and
//! the loads of several are in flight at once.
//!
//! The average of a whole plane would be one thread's work there. A plane is cut into *parts* of
//! [`PART_ELEMENTS`] instead, each of which a warp adds up; where there are several, the second kernel has a
//! warp for each plane that adds these sums. How a plane is cut depends on its length alone, so a sample's
//! averages are the same bits in any batch.

use super::norm::FAR;
use super::reciprocal::Reciprocal;
use super::{LaunchShape, WARP_THREADS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Blocks that a multiprocessor should hold.
pub const MIN_BLOCKS: u32 = 4;

/// Blocks of the kernel for windows; with one more, registers are too few on some architectures.
pub const WINDOW_MIN_BLOCKS: u32 = 3;

/// Windows that a thread reduces.
pub const OUTPUTS_PER_THREAD: usize = 4;

/// Outputs of a block, consecutive ones.
pub const BLOCK_OUTPUTS: u32 = BLOCK_THREADS * OUTPUTS_PER_THREAD as u32;

/// Elements of a plane that a warp adds up.
pub const PART_ELEMENTS: u64 = 4096;

/// Warps of a block.
pub const BLOCK_WARPS: u32 = BLOCK_THREADS / WARP_THREADS;

/// What becomes of a window.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowResult {
    /// Its largest element.
    Maximum = 0,
    /// Its sum by a divisor that is given.
    Divided = 1,
    /// Its sum by the number of its elements in the padded input.
    AverageOfPadded = 2,
    /// Its sum by the number of its elements in the input.
    Average = 3,
}

/// A pool over planes (or volumes) of the extents `input` that gives those of the extents `output`; axes are
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
    /// Border before the input, and behind it.
    pub padding: [u32; 3],
    /// Steps between the elements of a window.
    pub dilation: [u32; 3],
    /// A [`WindowResult`].
    pub result: u32,
    /// What sums are divided by, for [`WindowResult::Divided`].
    pub divisor: f32,
    /// Outputs of a row, to divide by.
    pub columns: Reciprocal,
    /// Outputs of a slice, to divide by.
    pub slice: Reciprocal,
    /// Outputs of a plane, or [`FAR`] if there are more; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl WindowGeometry {
    /// The same pool with what follows from its extents.
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

    /// Launch of the kernel that takes windows.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let outputs = self.planes * self.plane_outputs();
        LaunchShape::linear(outputs.div_ceil(BLOCK_OUTPUTS as u64), BLOCK_THREADS)
    }
}

/// Averages of whole planes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaneGeometry {
    /// Planes: samples times channels.
    pub planes: u64,
    /// Elements of a plane.
    pub elements: u64,
    /// Parts that a plane is cut into.
    pub parts: u64,
    /// What sums are divided by.
    pub divisor: f32,
}

impl PlaneGeometry {
    /// The averages of `planes` planes of `elements` elements, by this divisor.
    pub const fn new(planes: u64, elements: u64, divisor: f32) -> Self {
        Self {
            planes,
            elements,
            parts: elements.div_ceil(PART_ELEMENTS),
            divisor,
        }
    }

    /// Launch of the kernel that adds up parts.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let warps = self.planes * self.parts;
        LaunchShape::linear(warps.div_ceil(BLOCK_WARPS as u64), BLOCK_THREADS)
    }

    /// Launch of the kernel that adds up the sums of parts.
    pub const fn sums_shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.planes.div_ceil(BLOCK_WARPS as u64), BLOCK_THREADS)
    }
}
