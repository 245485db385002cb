//! Reductions over the channels, and the fusions that end in them. Any axis with others behind it is reduced
//! like the channels: the axes before it count as samples, and the axes behind it as positions.
//!
//! A block owns consecutive positions of one sample and reduces all channels there. If positions alone would
//! leave most of the GPU idle, the threads of a block also divide the channels among them and combine their
//! results in shared memory. Where positions occupy about half of the GPU, they divide only many channels. A
//! maximum does not depend on the order of the channels. A sum does, so the division of its channels is
//! independent of the batch size.

use super::{ElementType, LaunchShape, VECTOR_ELEMENTS, WARP_THREADS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// [`MIN_BLOCKS`] of the fusions, whose functions need registers.
pub const FUSED_MIN_BLOCKS: u32 = 3;

/// Consecutive positions of a thread.
pub const POSITIONS_PER_THREAD: usize = VECTOR_ELEMENTS;

/// Channels whose statistics a block keeps in shared memory at the same time.
pub const STAGED_CHANNELS: u32 = 256;

/// Number of threads of a launch below which threads also divide the channels.
const ENOUGH_THREADS: u64 = 1 << 18;

/// The minimum number of channels of a slice.
const SLICE_CHANNELS: u32 = 4;

/// Number of threads from which a slice has at least [`MANY_CHANNELS`]. For a few channels, a thread takes
/// more instructions to find its place and to combine and store its results than to reduce the channels. Only
/// a launch that leaves most of the GPU idle has instructions to spare.
const MANY_THREADS: u64 = 1 << 14;

/// The minimum number of channels of a slice in a launch of [`MANY_THREADS`].
const MANY_CHANNELS: u32 = 16;

/// The reduction over the channels of an `(n, channels, spatial)` tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelReductionGeometry {
    /// Samples.
    pub n: u64,
    /// Elements of one plane.
    pub spatial: u64,
    /// Channels of a sample.
    pub channels: u32,
    /// Number of slices of the channels, one per thread; a power of two.
    pub slices: u32,
    /// Threads of one slice, at least a warp.
    pub lanes: u32,
    /// Blocks of a sample.
    pub tiles: u32,
    /// The divisor of a mean.
    pub divisor: f32,
    /// The element type of the results. Fusions use the type of their tensors.
    pub output: ElementType,
}

impl ChannelReductionGeometry {
    /// Returns the geometry of an `(n, channels, spatial)` tensor. `in_any_order` says that the operation's
    /// result does not depend on the order of the channels.
    pub const fn new(n: u64, channels: u32, spatial: u64, in_any_order: bool) -> Self {
        let mut slices = 1;
        let samples = if in_any_order { n } else { 1 };
        let threads = samples * spatial.div_ceil(POSITIONS_PER_THREAD as u64);
        while slices < BLOCK_THREADS / WARP_THREADS && threads * (slices as u64) < ENOUGH_THREADS {
            let least = if threads * (slices as u64) < MANY_THREADS {
                SLICE_CHANNELS
            } else {
                MANY_CHANNELS
            };
            if slices * 2 * least > channels {
                break;
            }
            slices *= 2;
        }
        let lanes = BLOCK_THREADS / slices;
        Self {
            n,
            spatial,
            channels,
            slices,
            lanes,
            // A value beyond 32 bits also exceeds the limit of the grid.
            tiles: spatial.div_ceil(lanes as u64 * POSITIONS_PER_THREAD as u64) as u32,
            divisor: channels as f32,
            output: ElementType::F32,
        }
    }

    /// Returns the same geometry with another divisor, and with an element type for the results.
    #[must_use]
    pub const fn with_results(self, divisor: f32, output: ElementType) -> Self {
        Self {
            divisor,
            output,
            ..self
        }
    }

    /// Positions of a block.
    pub const fn block_positions(&self) -> u64 {
        self.lanes as u64 * POSITIONS_PER_THREAD as u64
    }

    /// The kernel's launch. Blocks of one sample are consecutive.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.n * self.spatial.div_ceil(self.block_positions());
        LaunchShape::linear(blocks, BLOCK_THREADS)
    }
}
