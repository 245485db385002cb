//! Operators that read all values along an axis before they write the first result: softmax, for example.
//!
//! The values along the axis at one position of the other axes are a *series*. Several threads of a block
//! share a series and keep its values in registers, up to [`HELD`] each; the kernel then reads each value
//! once. A longer series is read in *batches*, and more than once. The number of threads per series depends
//! on its length alone, so results are bit-identical for any batch size.

use op_spec::{Quantity, SpecError};

use super::{LaunchShape, Presence, WARP_THREADS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 128;

/// Minimum resident blocks per multiprocessor: the maximum for the registers of the values that a thread
/// holds.
pub const MIN_BLOCKS: u32 = 3;

/// Values that a thread holds at a time.
pub const HELD: usize = 32;

/// Values of a thread to which a list of functions is applied at a time.
pub const MAPPED: usize = 8;

/// The maximum length of rows that the threads of one warp hold.
const WARP_ROW_ELEMENTS: u32 = WARP_THREADS * HELD as u32;

/// The maximum number of threads that share a series of strided values. A block then has enough neighbouring
/// series to fill two sectors.
const MAX_SLICES: u32 = 8;

/// The maximum length of a series. Indices beyond the last batch fit 32 bits, too.
const MAX_COUNT: usize = i32::MAX as usize;

/// The series along an axis of a dense tensor, and their distribution over threads.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesGeometry {
    /// Number of series: the elements of all other axes.
    pub series: u64,
    /// Values of a series.
    pub count: u32,
    /// The distance between neighbouring values: the number of elements of the axes behind.
    pub inner: u32,
    /// Threads that share a series, a power of two.
    pub threads: u32,
    /// Series of a block.
    pub block_series: u32,
    /// Batches of a series.
    pub batches: u32,
    /// Number of channels, for a gain and a shift of each. If `along_channels`, the channel of a value is its
    /// index in the series. Otherwise it is the channel of the series: `series_per_channel` consecutive
    /// series belong to one channel, and the channels repeat for each sample.
    pub channels: u32,
    /// Whether a series holds the values of all channels at a position.
    pub along_channels: Presence,
    /// Number of consecutive series of one channel.
    pub series_per_channel: u64,
}

impl SeriesGeometry {
    /// Checks the extents of a problem and calls [`new`](Self::new).
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if a series, or the axes behind it, have more elements than kernels count.
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

    /// Returns the geometry of series of `count` values, `inner` elements apart, in each of `outer` parts of
    /// a tensor. All series belong to one channel.
    #[must_use]
    pub const fn new(outer: u64, count: u32, inner: u32) -> Self {
        if inner > 1 {
            return Self::in_slices(outer, count, inner);
        }
        // As few threads as hold a row: the number of values per thread is the number of its loads in flight.
        let threads = if count <= WARP_ROW_ELEMENTS {
            count.div_ceil(HELD as u32)
        } else {
            BLOCK_THREADS
        };
        Self::shared_by(threads.next_power_of_two(), outer, count, inner)
    }

    /// Returns the same geometry with the distribution over threads of strided values, and therefore
    /// bit-identical results: for rows that are the channels of a channels-last tensor.
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

    /// Returns the geometry of series that hold the values of all `channels`.
    #[must_use]
    pub const fn along_channels(self, channels: u32) -> Self {
        Self {
            channels,
            along_channels: Presence::PRESENT,
            ..self
        }
    }

    /// Returns the geometry of series that belong to one of `channels` channels each. A sample has
    /// `series_per_channel` of them per channel.
    #[must_use]
    pub const fn within_channels(self, channels: u32, series_per_channel: u64) -> Self {
        Self {
            channels,
            series_per_channel,
            ..self
        }
    }

    /// Whether the values of a series are contiguous, and neighbouring threads share it. Otherwise
    /// neighbouring threads have neighbouring series.
    #[must_use]
    #[inline(always)]
    pub const fn is_of_rows(&self) -> bool {
        self.inner == 1
    }

    /// The kernel's launch.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.series.div_ceil(self.block_series as u64);
        LaunchShape::linear(if self.count == 0 { 0 } else { blocks }, BLOCK_THREADS)
    }
}

/// Returns the smaller number.
const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}
