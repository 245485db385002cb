//! Operators that read all values along an axis before they write the first result: softmax, for example.
//!
//! The values along the axis at one position of the other axes are a *series*. Several threads of a block
//! share a series and keep its values in registers, up to [`HELD`] each; the kernel then reads each value
//! once. A longer series is read in *batches*, and more than once. The number of threads per series depends
//! on its length alone, so results are bit-identical for any batch size.
//!
//! The threads of a row are neighbours. A thread holds two parts. They are parts of two rows if rows are
//! short: twice as many threads then share a row, so that a warp accesses longer parts of fewer rows.

use op_spec::{Quantity, SpecError};

use super::{LaunchShape, Presence, VECTOR_ELEMENTS, WARP_THREADS};

/// Threads of a block with several series.
pub const BLOCK_THREADS: u32 = 128;

/// The most threads of a block, which share one long row.
pub const MAX_BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks of [`MAX_BLOCK_THREADS`] per multiprocessor: 24 warps, with 80 registers a thread.
pub const MIN_BLOCKS: u32 = 3;

/// Values that a thread holds at a time.
pub const HELD: usize = 32;

/// Parts of these values: of one series, or of a row each.
pub const PARTS: usize = 2;

/// Values of a part.
pub const PART: usize = HELD / PARTS;

/// Values of a thread to which a list of functions is applied at a time.
pub const MAPPED: usize = 8;

/// The maximum length of rows of which a thread holds several.
const SHORT_ROW_ELEMENTS: u32 = WARP_THREADS * PART as u32;

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
    /// Series of which a thread holds values at a time: 1, or [`PARTS`] rows.
    pub thread_series: u32,
    /// Series of a block. Divided by `thread_series`, it is a power of two.
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
        if count <= SHORT_ROW_ELEMENTS {
            let threads = count.div_ceil(PART as u32);
            return Self::shared_by(threads, PARTS as u32, outer, count, inner);
        }
        let threads = least(count.div_ceil(HELD as u32), MAX_BLOCK_THREADS);
        Self::shared_by(threads, 1, outer, count, inner)
    }

    /// Returns the same geometry with the distribution over threads of strided values, and therefore
    /// bit-identical results: for rows that are the channels of a channels-last tensor.
    #[must_use]
    pub const fn in_slices(outer: u64, count: u32, inner: u32) -> Self {
        let threads = least(count.div_ceil(HELD as u32), MAX_SLICES);
        Self::shared_by(threads, 1, outer, count, inner)
    }

    /// Returns the geometry of series with `threads` threads each, or the next power of two.
    const fn shared_by(
        threads: u32,
        thread_series: u32,
        outer: u64,
        count: u32,
        inner: u32,
    ) -> Self {
        let threads = threads.next_power_of_two();
        Self {
            series: outer * inner as u64,
            count,
            inner,
            threads,
            thread_series,
            block_series: if threads > WARP_THREADS {
                1
            } else {
                BLOCK_THREADS / threads * thread_series
            },
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

    /// Whether a thread holds values of several rows.
    #[must_use]
    #[inline(always)]
    pub const fn has_several(&self) -> bool {
        self.thread_series > 1
    }

    /// Series of which the threads of a block have values at the same time, a power of two.
    #[must_use]
    #[inline(always)]
    pub const fn together(&self) -> u32 {
        if self.has_several() {
            self.block_series / PARTS as u32
        } else {
            self.block_series
        }
    }

    /// Whether threads take four consecutive values of a series in turn, or else single values.
    #[must_use]
    #[inline(always)]
    pub const fn is_in_fours(&self) -> bool {
        self.count.is_multiple_of(VECTOR_ELEMENTS as u32)
    }

    /// The distance between values of a thread, within four of them.
    #[must_use]
    #[inline(always)]
    pub const fn unit(&self) -> u32 {
        if self.is_in_fours() { 1 } else { self.threads }
    }

    /// The kernel's launch.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.series.div_ceil(self.block_series as u64);
        let threads = self.threads * self.together();
        LaunchShape::linear(if self.count == 0 { 0 } else { blocks }, threads)
    }
}

/// Returns the smaller number.
const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}
