//! Reductions over the channels, and the fusions that end in them. Any axis with others behind it is reduced
//! like the channels: what is before it counts as samples, and what is behind it as positions.
//!
//! A block owns consecutive positions of one sample and reduces all channels there. Where positions alone
//! would leave most of the GPU idle, its threads also divide the channels among them, and combine their
//! results in shared memory at the end. A maximum is the same in any order. A sum is not, so the batch has no
//! part in how its channels are divided.

use super::{ElementType, LaunchShape, VECTOR_ELEMENTS, WARP_THREADS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Blocks that a multiprocessor should hold.
pub const MIN_BLOCKS: u32 = 3;

/// Consecutive positions of a thread.
pub const POSITIONS_PER_THREAD: usize = VECTOR_ELEMENTS;

/// Channels whose statistics a block keeps in shared memory at a time.
pub const STAGED_CHANNELS: u32 = 256;

/// Threads that a launch should have before threads are spent on dividing the channels.
const ENOUGH_THREADS: u64 = 1 << 18;

/// The fewest channels of a slice.
const SLICE_CHANNELS: u32 = 4;

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
    /// Slices of the channels, for different threads; a power of two.
    pub slices: u32,
    /// Threads of one slice, at least a warp.
    pub lanes: u32,
    /// Blocks of a sample.
    pub tiles: u32,
    /// The divisor of a mean.
    pub divisor: f32,
    /// The element type of the results. Fusions write that of their tensors.
    pub output: ElementType,
}

impl ChannelReductionGeometry {
    /// The geometry of an `(n, channels, spatial)` tensor, for an operation whose result may or may not
    /// depend on the order of the channels.
    pub const fn new(n: u64, channels: u32, spatial: u64, in_any_order: bool) -> Self {
        let mut slices = 1;
        let samples = if in_any_order { n } else { 1 };
        let threads = samples * spatial.div_ceil(POSITIONS_PER_THREAD as u64);
        while slices < BLOCK_THREADS / WARP_THREADS
            && threads * (slices as u64) < ENOUGH_THREADS
            && slices * 2 * SLICE_CHANNELS <= channels
        {
            slices *= 2;
        }
        let lanes = BLOCK_THREADS / slices;
        Self {
            n,
            spatial,
            channels,
            slices,
            lanes,
            // A number beyond 32 bits is beyond a grid's limit, too.
            tiles: spatial.div_ceil(lanes as u64 * POSITIONS_PER_THREAD as u64) as u32,
            divisor: channels as f32,
            output: ElementType::F32,
        }
    }

    /// The same with another divisor, and results of an element type.
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

    /// Launch of the kernel: blocks of one sample are consecutive.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.n * self.spatial.div_ceil(self.block_positions());
        LaunchShape::linear(blocks, BLOCK_THREADS)
    }
}
