//! Launch configurations of the kernels: tile constants, launch shapes, and the geometry structs that kernels
//! take by value.
//!
//! A kernel and the code that launches it must agree on three things: the size of a tile, the number of
//! blocks, and the meaning of the kernel's arguments. This crate alone defines all three, in plain integers
//! that tests check without a GPU.
//!
//! Every grid is one-dimensional. Dimension `x` may have 2^31 - 1 blocks, `y` and `z` only 65,535; a kernel
//! that splits a flat block index has a single limit. Offsets of whole planes are 64-bit, positions inside
//! one plane 32-bit. A tensor may therefore exceed 2^31 elements, but one plane (or volume) of a convolution
//! or a pool may not.

#![no_std]

mod arch;
pub mod arithmetic;
pub mod batch_norm;
pub mod channel_reduction;
mod clusters;
pub mod conv;
pub mod conv_mean;
pub mod conv_nhwc;
pub mod conv_transpose;
pub mod copy_rows;
pub mod copy_strided;
pub mod depthwise;
pub mod elementwise;
pub mod gate;
pub mod gemm {
    //! Convolutions from NHWC to NHWC as matrix products (GEMM).

    mod sm90;

    pub use sm90::*;
}
mod geometry;
pub mod implicit_gemm;
pub mod layer_norm;
pub mod max_pool2d;
mod mode;
pub mod nhwc;
pub mod norm;
pub mod norm_nhwc;
pub mod one_launch;
pub mod overlapping;
pub mod pad;
pub mod peak;
pub mod pipeline;
pub mod pointwise;
pub mod pool;
pub mod pool_rows;
pub mod reciprocal;
pub mod reduction_nhwc;
mod refusal;
pub mod row_reduction;
pub mod series;
pub mod softmax;
pub mod upsample;

pub use arch::{Arch, TensorRates};
pub use geometry::KernelGeometry;
pub use mode::{AffineType, ElementType, Presence};
pub use refusal::{Refusal, Rule};

/// Elements that one vector access moves: 16 bytes of f32, 8 bytes of f16 or bf16.
pub const VECTOR_ELEMENTS: usize = 4;

/// Threads in a warp.
pub const WARP_THREADS: u32 = 32;

/// The maximum number of blocks of a grid along `x`.
pub const MAX_BLOCKS: u64 = (1 << 31) - 1;

/// Grid, block and dynamic shared memory of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in `x`, `y`, `z`.
    pub grid: [u32; 3],
    /// Threads of a block in `x`, `y`, `z`.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster along `x`, set by the launch; 1 for no cluster, or for a cluster size that the
    /// kernel itself declares. The number of blocks of the grid is a multiple of it.
    pub cluster_blocks: u32,
}

impl LaunchShape {
    /// Returns a one-dimensional launch; `None` if `blocks` exceeds [`MAX_BLOCKS`].
    pub const fn linear(blocks: u64, threads: u32) -> Option<Self> {
        if blocks > MAX_BLOCKS {
            return None;
        }
        Some(Self {
            grid: [blocks as u32, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cluster_blocks: 1,
        })
    }

    /// Returns the same launch with `bytes` of dynamic shared memory in each block.
    pub const fn with_shared(self, bytes: u32) -> Self {
        Self {
            shared_bytes: bytes,
            ..self
        }
    }

    /// Returns the same launch in clusters of `blocks` blocks.
    pub const fn in_clusters(self, blocks: u32) -> Self {
        Self {
            cluster_blocks: blocks,
            ..self
        }
    }

    /// Whether the grid is empty (for a batch of 0, say). The driver refuses an empty grid, and the caller
    /// has to skip the launch.
    pub const fn is_empty(&self) -> bool {
        self.grid[0] == 0
    }
}
