//! `scale`, `prelu` and the pointwise functions: the kernel reads and writes every element once.
//!
//! A block owns [`BLOCK_ELEMENTS`] consecutive elements of the flattened tensor, independent of its planes.
//! All accesses are thus aligned vectors for any plane size.

use super::{LaunchShape, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// Vectors that a thread has in flight.
pub const VECTORS_PER_THREAD: usize = 4;

/// Elements that a block moves in one *round*: one vector per thread.
pub const ROUND_ELEMENTS: usize = BLOCK_THREADS as usize * VECTOR_ELEMENTS;

/// Consecutive elements that one block owns.
pub const BLOCK_ELEMENTS: usize = ROUND_ELEMENTS * VECTORS_PER_THREAD;

/// The view of a tensor as `(n, channels, spatial)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelGeometry {
    /// `n * channels * spatial`.
    pub elements: u64,
    /// Elements of one plane.
    pub spatial: u64,
    /// Channels of a sample.
    pub channels: u32,
}

impl ChannelGeometry {
    /// Returns the geometry of an `(n, channels, spatial)` tensor.
    pub const fn new(n: u64, channels: u32, spatial: u64) -> Self {
        Self {
            elements: n * channels as u64 * spatial,
            spatial,
            channels,
        }
    }
}

/// The bounds of a clamp. An absent bound is infinite, which is exact: the maximum of any value (NaN
/// included) and minus infinity is the value itself.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Lower bound.
    pub min: f32,
    /// Upper bound, which wins over a larger `min`.
    pub max: f32,
}

impl Bounds {
    /// Bounds that leave every value unchanged.
    pub const NONE: Self = Self::new(None, None);

    /// Returns these bounds; absent ones are infinite.
    pub const fn new(min: Option<f32>, max: Option<f32>) -> Self {
        Self {
            min: match min {
                Some(min) => min,
                None => f32::NEG_INFINITY,
            },
            max: match max {
                Some(max) => max,
                None => f32::INFINITY,
            },
        }
    }
}

/// The launch of an elementwise kernel over `elements` elements.
pub const fn shape(elements: u64) -> Option<LaunchShape> {
    LaunchShape::linear(elements.div_ceil(BLOCK_ELEMENTS as u64), BLOCK_THREADS)
}

/// Threads of the kernel that folds `scale` into the norm's weight and bias.
pub const FOLD_THREADS: u32 = 128;

/// The folding kernel's launch: one thread per channel.
pub const fn fold_shape(channels: u32) -> Option<LaunchShape> {
    LaunchShape::linear(channels.div_ceil(FOLD_THREADS) as u64, FOLD_THREADS)
}
