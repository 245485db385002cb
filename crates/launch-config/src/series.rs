//! Operators that take all values along an axis before they give any: softmax, for example.
//!
//! The values along the axis at one place of the others are a *series*. Threads of a block share a series and
//! keep its values in registers, up to [`HELD`] each, so that a kernel reads them once; of longer series they
//! take a *batch* at a time and read it again. How many threads share a series depends on its length alone,
//! so results are the same bits in any batch of samples.

use op_spec::{Quantity, SpecError};

use super::{LaunchShape, Presence, WARP_THREADS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 128;

/// Blocks that a multiprocessor should hold: as many as registers for the values that a thread holds allow.
pub const MIN_BLOCKS: u32 = 3;

/// Values that a thread holds at a time.
pub const HELD: usize = 32;

/// Values of a thread that go through a list of functions at a time.
pub const MAPPED: usize = 8;

/// The longest rows that threads of one warp hold.
const WARP_ROW_ELEMENTS: u32 = WARP_THREADS * HELD as u32;

/// The most threads that share a series whose values are apart: then as many series are neighbours as fill
/// two sectors.
const MAX_SLICES: u32 = 8;

/// The most values of a series: indices of those behind the last batch fit 32 bits, too.
const MAX_COUNT: usize = i32::MAX as usize;

/// The values along an axis of a dense tensor, and how threads share them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesGeometry {
    /// Series: elements of all other axes.
    pub series: u64,
    /// Values of a series.
    pub count: u32,
    /// The distance of these values: elements of the axes behind.
    pub inner: u32,
    /// Threads that share a series, a power of two.
    pub threads: u32,
    /// Series of a block.
    pub block_series: u32,
    /// Batches of a series.
    pub batches: u32,
    /// Channels, for a gain and a shift of each. The channel of a value is its index in the series if
    /// `along_channels`, else that of the series: one for each `series_per_channel` of them, over and over.
    pub channels: u32,
    /// Whether a series has the values of all channels at a position.
    pub along_channels: Presence,
    /// Neighbouring series of one channel.
    pub series_per_channel: u64,
}

impl SeriesGeometry {
    /// The same as [`new`](Self::new) for the extents of a problem.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if there are more values in a series, or behind one, than kernels count.
    pub fn of(operator: &'static str, extents: [usize; 3]) -> Result<Self, SpecError> {
        let [outer, count, inner] = extents;
        for (name, actual) in [
            ("values of a series", count),
            ("elements behind a value", inner),
        ] {
            if actual > MAX_COUNT {
                return Err(SpecError::BeyondKernel {
                    operator,
                    quantity: Quantity::scalar(name),
                    actual,
                    limit: MAX_COUNT,
                });
            }
        }
        Ok(Self::new(outer as u64, count as u32, inner as u32))
    }

    /// Series of `count` values, `inner` elements apart, in each of `outer` parts of a tensor, where gain and
    /// shift are those of one channel.
    #[must_use]
    pub const fn new(outer: u64, count: u32, inner: u32) -> Self {
        if inner > 1 {
            return Self::in_slices(outer, count, inner);
        }
        // As few as hold a row: what a thread holds is what it has under way to memory.
        let threads = if count <= WARP_ROW_ELEMENTS {
            count.div_ceil(HELD as u32)
        } else {
            BLOCK_THREADS
        };
        Self::shared_by(threads.next_power_of_two(), outer, count, inner)
    }

    /// The same, shared like series whose values are apart, so that results have the same bits: for rows that
    /// are channels of a channels-last tensor.
    #[must_use]
    pub const fn in_slices(outer: u64, count: u32, inner: u32) -> Self {
        let threads = least(count.div_ceil(HELD as u32), MAX_SLICES);
        Self::shared_by(threads.next_power_of_two(), outer, count, inner)
    }

    const fn shared_by(threads: u32, outer: u64, count: u32, inner: u32) -> Self {
        Self {
            series: outer * inner as u64,
            count,
            inner,
            threads,
            block_series: BLOCK_THREADS / threads,
            batches: count.div_ceil(threads * HELD as u32),
            channels: 1,
            along_channels: Presence::ABSENT,
            series_per_channel: 1,
        }
    }

    /// The same where a series has the values of all `channels`.
    #[must_use]
    pub const fn along_channels(self, channels: u32) -> Self {
        Self {
            channels,
            along_channels: Presence::PRESENT,
            ..self
        }
    }

    /// The same where each series is of one of the `channels`, of which each sample has
    /// `series_per_channel`.
    #[must_use]
    pub const fn within_channels(self, channels: u32, series_per_channel: u64) -> Self {
        Self {
            channels,
            series_per_channel,
            ..self
        }
    }

    /// Whether the values of a series are neighbours, as are threads that share one. Else neighbouring
    /// threads have neighbouring series.
    #[must_use]
    #[inline(always)]
    pub const fn is_of_rows(&self) -> bool {
        self.inner == 1
    }

    /// Launch of the kernel.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.series.div_ceil(self.block_series as u64);
        LaunchShape::linear(if self.count == 0 { 0 } else { blocks }, BLOCK_THREADS)
    }
}

/// The smaller one.
const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}
