//! `max_pool2d` and the fusions that end in it.
//!
//! A block owns [`BLOCK_OUTPUTS`] consecutive outputs of the flattened output; each thread has
//! [`OUTPUTS_PER_THREAD`] of them, a block apart, so that the loads of several windows are in
//! flight at once and a warp's windows are neighbours.

use super::LaunchShape;
use super::norm::NormGeometry;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Blocks that a multiprocessor should hold.
pub const MIN_BLOCKS: u32 = 4;

/// Windows that a thread reduces.
pub const OUTPUTS_PER_THREAD: usize = 4;

/// Consecutive outputs of a block.
pub const BLOCK_OUTPUTS: usize = BLOCK_THREADS as usize * OUTPUTS_PER_THREAD;

/// A 2-D pool over planes of `h * w` that gives planes of `p * q`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolGeometry {
    /// Planes: samples times channels.
    pub planes: u64,
    /// Channels of a sample.
    pub channels: u32,
    /// Input rows.
    pub h: u32,
    /// Input columns.
    pub w: u32,
    /// Output rows.
    pub p: u32,
    /// Output columns.
    pub q: u32,
    /// Window rows.
    pub r: u32,
    /// Window columns.
    pub s: u32,
    /// Rows between windows.
    pub stride_h: u32,
    /// Columns between windows.
    pub stride_w: u32,
    /// Rows of padding above the input.
    pub pad_h: u32,
    /// Columns of padding left of the input.
    pub pad_w: u32,
    /// Rows between the elements of a window.
    pub dilation_h: u32,
    /// Columns between the elements of a window.
    pub dilation_w: u32,
}

impl PoolGeometry {
    /// Elements of the output.
    pub const fn outputs(&self) -> u64 {
        self.planes * self.p as u64 * self.q as u64
    }

    /// Launch of a pooling kernel.
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.outputs().div_ceil(BLOCK_OUTPUTS as u64), BLOCK_THREADS)
    }

    /// Launch of a kernel that normalises before it pools.
    pub const fn norm_shape(&self, norm: &NormGeometry) -> Option<LaunchShape> {
        let plane_outputs = self.p as u64 * self.q as u64;
        match self.shape() {
            Some(shape) => {
                Some(shape.with_shared(norm.staged_bytes(plane_outputs, BLOCK_OUTPUTS as u64)))
            }
            None => None,
        }
    }
}
