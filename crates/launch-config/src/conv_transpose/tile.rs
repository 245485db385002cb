//! How the threads of the launch that interleaves are laid over an output.

use super::BLOCK_THREADS;

/// About how many elements a thread writes where the layout is NCHW, and vectors where it is NHWC.
const THREAD_ELEMENTS: u32 = 16;
const THREAD_VECTORS: u32 = 8;

/// The most of these that a thread writes of a row.
const THREAD_COLUMNS: u32 = 32;

/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;

/// Neighbouring threads that write neighbouring vectors, at least: 64 bytes.
const LINE_VECTORS: u32 = 4;

/// How the threads of a block are laid over the rows and the columns of a slice. A block's other threads are
/// in further slices.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTile {
    /// Rows.
    pub rows: AxisTile,
    /// Columns.
    pub columns: AxisTile,
}

/// Threads along an axis. They are side by side, and each takes elements of one phase.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisTile {
    /// The logarithm of the threads.
    pub log_threads: u32,
    /// Elements of a tile.
    pub extent: u32,
    /// Tiles of the axis.
    pub tiles: u32,
    /// Blocks that share a tile: each begins where the threads of the one before it end.
    pub runs: u32,
    /// Elements from one that a thread has to the next, which is a multiple of the stride.
    pub step: u32,
    /// Positions in the phase between them.
    pub position_step: u32,
}

impl AxisTile {
    /// Threads over `extent` elements, at most `most` of them a thread, whose phases repeat after `stride`
    /// elements.
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

    /// The number of a thread among all, as what is left for other axes and its number on this one.
    #[inline(always)]
    pub const fn divide(&self, thread: u32) -> (u32, u32) {
        let of_axis = thread & ((1 << self.log_threads) - 1);
        (thread >> self.log_threads, of_axis)
    }

    /// The first element of a thread, which may be beyond the last, and the end of its elements, in an axis
    /// of `extent` elements.
    #[inline(always)]
    pub const fn of_thread(&self, tile: u32, run: u32, thread: u32, extent: u32) -> (u32, u32) {
        let begin = tile * self.extent;
        let end = begin + self.extent;
        let first = begin + (run << self.log_threads) + thread;
        (first, if end < extent { end } else { extent })
    }

    /// Blocks along the axis.
    pub(super) const fn blocks(&self) -> u64 {
        self.tiles as u64 * self.runs as u64
    }

    /// The most elements of a thread.
    pub(super) const fn of_each(&self) -> u32 {
        self.extent.div_ceil(self.step)
    }
}

impl RowTile {
    /// That of slices with these rows and columns, whose phases repeat after `strides` of them, in NCHW.
    pub(super) fn of(extents: [u32; 2], strides: [u32; 2]) -> Self {
        Self::of_threads(BLOCK_THREADS.ilog2(), extents, strides, THREAD_ELEMENTS)
    }

    /// The same for a power of two of threads, which write about so many elements each.
    fn of_threads(
        log_all: u32,
        [rows, columns]: [u32; 2],
        strides: [u32; 2],
        elements: u32,
    ) -> Self {
        let most = 1 << log_all;
        let log = |count: u32| count.clamp(1, most).next_power_of_two().ilog2();
        let log_warp = log_all.min(5);
        // Few rows leave threads for longer parts of them.
        let lanes = log(columns).min((log_all - log(rows)).max(log_warp));
        let columns = AxisTile::of(columns, strides[1], lanes, THREAD_COLUMNS);
        let most = (elements / columns.of_each()).max(1);
        Self {
            rows: AxisTile::of(rows, strides[0], log(rows).min(log_all - lanes), most),
            columns,
        }
    }

    /// Slices of a block.
    #[inline(always)]
    pub const fn slices(&self) -> u32 {
        self.slices_of(BLOCK_THREADS)
    }

    /// Slices that so many threads have.
    #[inline(always)]
    const fn slices_of(&self, threads: u32) -> u32 {
        threads >> (self.columns.log_threads + self.rows.log_threads)
    }

    /// Blocks that write a slice.
    pub(super) const fn blocks(&self) -> u64 {
        self.rows.blocks() * self.columns.blocks()
    }
}

/// How the threads of a block are laid over an NHWC output: neighbouring threads have neighbouring vectors
/// of channels, then pixels of one phase.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NhwcTile {
    /// Elements of a vector: of 16 bytes or of half as many, or one.
    pub item_channels: u32,
    /// Vectors of a pixel.
    pub items: u32,
    /// Vectors of a pixel that a block has.
    pub block_items: u32,
    /// Blocks for the vectors of a pixel.
    pub channel_blocks: u32,
    /// The logarithm of the pixels that a block has at a time.
    pub log_lanes: u32,
    /// These over rows and columns, the others in further slices.
    pub rows: RowTile,
}

impl NhwcTile {
    /// That of pixels of `channels`, whose groups have `group_k` each, of elements of so many bytes.
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
        // Lanes are a power of two, so whole lines of as many vectors leave no thread out.
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

    /// Slices of a block.
    #[inline(always)]
    pub const fn slices(&self) -> u32 {
        self.rows.slices_of(1 << self.log_lanes)
    }

    /// Blocks that write a slice.
    pub(super) const fn blocks(&self) -> u64 {
        self.rows.blocks() * self.channel_blocks as u64
    }
}

/// Of two numbers above 0.
pub(super) const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match a % b {
        0 => b,
        rest => greatest_common_divisor(b, rest),
    }
}
