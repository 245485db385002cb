//! How the threads of the launch that interleaves are laid over an NCHW output.

use super::BLOCK_THREADS;

/// About how many elements a thread writes where the layout is NCHW.
const THREAD_ELEMENTS: u32 = 16;

/// The most elements that a thread writes of a row where the layout is NCHW.
const THREAD_COLUMNS: u32 = 32;

/// How the threads of the blocks of an NCHW launch are laid over the rows and the columns of a slice. A
/// block's other threads are in further slices.
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
    /// That of slices with these rows and columns, whose phases repeat after `strides` of them.
    pub(super) fn of([rows, columns]: [u32; 2], strides: [u32; 2]) -> Self {
        let log = |count: u32| count.clamp(1, BLOCK_THREADS).next_power_of_two().ilog2();
        let (log_all, log_warp) = (BLOCK_THREADS.ilog2(), 5);
        // Few rows leave threads for longer parts of them.
        let lanes = log(columns).min((log_all - log(rows)).max(log_warp));
        let columns = AxisTile::of(columns, strides[1], lanes, THREAD_COLUMNS);
        let most = (THREAD_ELEMENTS / columns.of_each()).max(1);
        Self {
            rows: AxisTile::of(rows, strides[0], log(rows).min(log_all - lanes), most),
            columns,
        }
    }

    /// Slices of a block.
    #[inline(always)]
    pub const fn slices(&self) -> u32 {
        BLOCK_THREADS >> (self.columns.log_threads + self.rows.log_threads)
    }

    /// Blocks that write a slice.
    pub(super) const fn blocks(&self) -> u64 {
        self.rows.blocks() * self.columns.blocks()
    }
}

/// Of two numbers above 0.
pub(super) const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match a % b {
        0 => b,
        rest => greatest_common_divisor(b, rest),
    }
}
