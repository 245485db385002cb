//! The distribution of threads over the output in the launch that interleaves.

use super::BLOCK_THREADS;

/// The approximate number of elements per thread in NCHW, and of vectors in NHWC.
const THREAD_ELEMENTS: u32 = 16;
const THREAD_VECTORS: u32 = 8;

/// The maximum number of these that a thread writes in one row.
const THREAD_COLUMNS: u32 = 32;

/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;

/// The minimum number of neighbouring threads that write neighbouring vectors: 64 bytes.
const LINE_VECTORS: u32 = 4;

/// The distribution of a block's threads over the rows and the columns of a slice. Remaining threads of the
/// block work on further slices.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTile {
    /// Rows.
    pub rows: AxisTile,
    /// Columns.
    pub columns: AxisTile,
}

/// Threads along an axis. They are side by side, and each of them processes elements of one phase.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisTile {
    /// Binary logarithm of the number of threads.
    pub log_threads: u32,
    /// Elements of a tile.
    pub extent: u32,
    /// Tiles of the axis.
    pub tiles: u32,
    /// Blocks that share a tile: each begins at the end of the previous one's threads.
    pub runs: u32,
    /// Distance between the elements of a thread, a multiple of the stride.
    pub step: u32,
    /// Distance between the elements of a thread in positions of their phase.
    pub position_step: u32,
}

impl AxisTile {
    /// Distributes threads over `extent` elements, with at most `most` elements per thread. The phases repeat
    /// after `stride` elements.
    pub(super) fn of(extent: u32, stride: u32, log_threads: u32, most: u32) -> Self {
        let threads = 1 << log_threads;
        let common = greatest_common_divisor(threads as usize, stride as usize) as u32;
        let runs = stride / common;
        let step = threads * runs;
        let tiles = extent.div_ceil(step.saturating_mul(most));
        let of_tile = extent.div_ceil(tiles).next_multiple_of(threads);
        Self {
            log_threads,
            extent: of_tile,
            tiles: extent.div_ceil(of_tile),
            runs: runs.min(of_tile / threads),
            step,
            position_step: threads / common,
        }
    }

    /// Splits a thread index into the part for the other axes and the thread's index on this axis.
    #[inline(always)]
    pub const fn divide(&self, thread: u32) -> (u32, u32) {
        let of_axis = thread & ((1 << self.log_threads) - 1);
        (thread >> self.log_threads, of_axis)
    }

    /// Returns the first element of a thread and the end of its elements, on an axis of `extent` elements.
    /// The first element may be beyond the last one of the axis.
    #[inline(always)]
    pub const fn of_thread(&self, tile: u32, run: u32, thread: u32, extent: u32) -> (u32, u32) {
        let begin = tile * self.extent;
        let end = begin + self.extent;
        let first = begin + (run << self.log_threads) + thread;
        (first, if end < extent { end } else { extent })
    }

    /// Number of blocks along the axis.
    pub(super) const fn blocks(&self) -> u64 {
        self.tiles as u64 * self.runs as u64
    }

    /// The maximum number of elements per thread.
    pub(super) const fn of_each(&self) -> u32 {
        self.extent.div_ceil(self.step)
    }
}

impl RowTile {
    /// Returns the tile of slices with these rows and columns in NCHW. Phases repeat after `strides` of them.
    pub(super) fn of(extents: [u32; 2], strides: [u32; 2]) -> Self {
        Self::of_threads(BLOCK_THREADS.ilog2(), extents, strides, THREAD_ELEMENTS)
    }

    /// Returns the tile for `2^log_all` threads, which write about `elements` elements each.
    fn of_threads(
        log_all: u32,
        [rows, columns]: [u32; 2],
        strides: [u32; 2],
        elements: u32,
    ) -> Self {
        let most = 1 << log_all;
        let log = |count: u32| count.clamp(1, most).next_power_of_two().ilog2();
        let log_warp = log_all.min(5);
        // With few rows, more threads are side by side in each row.
        let lanes = log(columns).min((log_all - log(rows)).max(log_warp));
        let columns = AxisTile::of(columns, strides[1], lanes, THREAD_COLUMNS);
        let most = (elements / columns.of_each()).max(1);
        Self {
            rows: AxisTile::of(rows, strides[0], log(rows).min(log_all - lanes), most),
            columns,
        }
    }

    /// Number of slices per block.
    #[inline(always)]
    pub const fn slices(&self) -> u32 {
        self.slices_of(BLOCK_THREADS)
    }

    /// Number of slices for this number of threads.
    #[inline(always)]
    const fn slices_of(&self, threads: u32) -> u32 {
        threads >> (self.columns.log_threads + self.rows.log_threads)
    }

    /// Number of blocks per slice.
    pub(super) const fn blocks(&self) -> u64 {
        self.rows.blocks() * self.columns.blocks()
    }
}

/// The distribution of a block's threads over an NHWC output. Neighbouring threads have neighbouring vectors
/// of channels, and then neighbouring pixels of one phase.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NhwcTile {
    /// Elements of a vector of 16 or 8 bytes, or 1.
    pub item_channels: u32,
    /// Vectors of a pixel.
    pub items: u32,
    /// Vectors of a pixel per block.
    pub block_items: u32,
    /// Blocks for the vectors of a pixel.
    pub channel_blocks: u32,
    /// Binary logarithm of the pixels that a block processes at the same time.
    pub log_lanes: u32,
    /// The distribution of these pixels over rows and columns; the others are in further slices.
    pub rows: RowTile,
}

impl NhwcTile {
    /// Returns the tile of pixels of `channels` channels, in groups of `group_k`, with elements of
    /// `element_bytes`.
    pub(super) fn of(
        [channels, group_k]: [u32; 2],
        element_bytes: u32,
        extents: [u32; 2],
        strides: [u32; 2],
    ) -> Self {
        let whole = VECTOR_BYTES / element_bytes;
        let vectors = [whole, super::VECTOR_ELEMENTS as u32];
        let mut divisors = vectors.into_iter().filter(|&of| group_k.is_multiple_of(of));
        let item_channels = divisors.next().unwrap_or(1);
        let items = (channels / item_channels).max(1);
        // The number of lanes is a power of two. Lines with a power of two of vectors thus leave no thread
        // idle.
        let lines = (1 << items.trailing_zeros().min(BLOCK_THREADS.ilog2())) as u32;
        let block_items = match lines >= LINE_VECTORS {
            true => lines,
            false => items.min(BLOCK_THREADS),
        };
        let log_lanes = (BLOCK_THREADS / block_items).ilog2();
        Self {
            item_channels,
            items,
            block_items,
            channel_blocks: items.div_ceil(block_items),
            log_lanes,
            rows: RowTile::of_threads(log_lanes, extents, strides, THREAD_VECTORS),
        }
    }

    /// Number of slices per block.
    #[inline(always)]
    pub const fn slices(&self) -> u32 {
        self.rows.slices_of(1 << self.log_lanes)
    }

    /// Number of blocks per slice.
    pub(super) const fn blocks(&self) -> u64 {
        self.rows.blocks() * self.channel_blocks as u64
    }
}

/// Computes the greatest common divisor of two numbers above 0.
pub(super) const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match a % b {
        0 => b,
        rest => greatest_common_divisor(b, rest),
    }
}
