//! Pools with any attributes. (Fusions that end in `max_pool2d` have their own kernels, in `max_pool2d`; averages
//! of whole planes are reductions of rows, in `row_reduction`.)
//!
//! Images are volumes of depth 1. A thread has a *tile* of outputs of one column, so that neighbouring threads
//! have neighbouring columns. Windows are reduced along one axis after the other: a *line* is the columns of a
//! window in one row of the input. Windows of a tile that overlap share lines, which are in shared memory.

use super::max_pool2d::PoolGeometry;
use super::nhwc::{MAX_VECTORS, RunBlocks};
use super::norm::{ENOUGH_BLOCKS, FAR};
use super::reciprocal::Reciprocal;
use super::{LaunchShape, Refusal};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 128;

/// Blocks of the kernel for maxima that a multiprocessor should hold.
pub const MAXIMUM_MIN_BLOCKS: u32 = 8;

/// Blocks of the one for averages. More would leave too few registers on some architectures.
pub const MIN_BLOCKS: u32 = 6;

/// Lines that a thread reduces side by side.
pub const SIDE_BY_SIDE: u32 = 4;

/// Blocks of the kernel for averages of windows of channels-last tensors.
pub const NHWC_MIN_BLOCKS: u32 = 2;

/// Blocks of the one for their maxima.
pub const NHWC_MAXIMUM_MIN_BLOCKS: u32 = 4;

/// Windows that a thread reduces, of channels-last tensors.
pub const OUTPUTS_PER_THREAD: usize = 4;

/// The result of a window.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowResult {
    /// Its largest element.
    Maximum = 0,
    /// Its sum over a given divisor.
    Divided = 1,
    /// Its sum over the number of its elements in the padded input.
    AverageOfPadded = 2,
    /// Its sum over the number of its elements in the input.
    Average = 3,
}

/// A pool from planes (or volumes) of the extents `input` to those of the extents `output`. Axes are depth,
/// height, width.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowGeometry {
    /// Planes: samples times channels.
    pub planes: u64,
    /// Input extents.
    pub input: [u32; 3],
    /// Output extents.
    pub output: [u32; 3],
    /// Window extents.
    pub kernel: [u32; 3],
    /// Steps between windows.
    pub stride: [u32; 3],
    /// Padding in front of the input, and behind it.
    pub padding: [u32; 3],
    /// Steps between the elements of a window.
    pub dilation: [u32; 3],
    /// The result of a window.
    pub result: WindowResult,
    /// The divisor of sums for [`WindowResult::Divided`].
    pub divisor: f32,
}

impl WindowGeometry {
    /// The maximum pool `of` images, which are volumes of depth 1.
    #[must_use]
    pub const fn of_images(of: &PoolGeometry) -> Self {
        Self {
            planes: of.planes,
            input: [1, of.h, of.w],
            output: [1, of.p, of.q],
            kernel: [1, of.r, of.s],
            stride: [1, of.stride_h, of.stride_w],
            padding: [0, of.pad_h, of.pad_w],
            dilation: [1, of.dilation_h, of.dilation_w],
            result: WindowResult::Maximum,
            divisor: 1.0,
        }
    }

    /// Whether the results are maxima.
    #[must_use]
    pub fn are_maxima(&self) -> bool {
        self.result == WindowResult::Maximum
    }

    /// Elements of a plane.
    pub const fn plane_elements(&self) -> u64 {
        let [d, h, w] = self.input;
        d as u64 * h as u64 * w as u64
    }

    /// Outputs of a plane.
    pub const fn plane_outputs(&self) -> u64 {
        let [z, p, q] = self.output;
        z as u64 * p as u64 * q as u64
    }

    /// The same windows, with the rows of all planes as those of one, if windows are parts of rows, and the
    /// rows and outputs are few enough to count.
    fn of_rows(self) -> Self {
        let are_rows = (0..2).all(|axis| {
            self.kernel[axis] == 1 && self.stride[axis] == 1 && self.padding[axis] == 0
        });
        let [d, h, w] = self.input;
        let rows = self.planes * u64::from(d) * u64::from(h);
        let is_counted = rows * u64::from(self.output[2]) < u64::from(Reciprocal::LIMIT);
        if !are_rows || !is_counted {
            return self;
        }
        Self {
            planes: 1,
            input: [1, rows as u32, w],
            output: [1, rows as u32, self.output[2]],
            ..self
        }
    }
}

/// The most lines of a thread that are in shared memory.
const MAX_LINES: u32 = 24;

/// A pool of planes, and how threads share it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaneWindowGeometry {
    /// The pool. Its planes may be all rows of a tensor.
    pub windows: WindowGeometry,
    /// Slices and rows of outputs of a tile. Of a single output no lines are shared.
    pub tile: [u32; 2],
    /// Slices and rows of lines of a tile, and their steps in the input.
    pub lines: [u32; 2],
    /// Steps between the lines.
    pub step: [u32; 2],
    /// Tiles of a plane.
    pub plane_tiles: u64,
    /// Reciprocal of the outputs of a row.
    pub columns: Reciprocal,
    /// Reciprocal of the tiles of a slice of tiles.
    pub slice: Reciprocal,
    /// Reciprocal of the tiles of a plane, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl PlaneWindowGeometry {
    /// The pool `windows`, in the tiles of least instructions that are enough for all multiprocessors.
    #[must_use]
    pub fn new(windows: &WindowGeometry) -> Self {
        let windows = windows.of_rows();
        let enough = ENOUGH_BLOCKS * u64::from(BLOCK_THREADS);
        let single = Self::tiled(&windows, [1, 1]);
        let tiles = (1..=4).flat_map(|slices| (1..=16).map(move |rows| [slices, rows]));
        tiles
            .map(|tile| Self::tiled(&windows, tile))
            .filter(|of| of.lines[0] * of.lines[1] <= MAX_LINES && of.tiles() >= enough)
            .chain([single])
            .min_by_key(Self::instructions)
            .unwrap_or(single)
    }

    /// The pool in tiles of these slices and rows of outputs. Axes of fewer outputs have smaller ones.
    #[must_use]
    pub fn tiled(windows: &WindowGeometry, tile: [u32; 2]) -> Self {
        let tile = [0, 1].map(|axis| tile[axis].min(windows.output[axis]));
        let step = [0, 1].map(|axis| match (tile[axis], windows.kernel[axis]) {
            (1, _) => windows.dilation[axis],
            (_, 1) => windows.stride[axis],
            _ => common_divisor(windows.stride[axis], windows.dilation[axis]),
        });
        let lines = [0, 1].map(|axis| {
            let outputs = (tile[axis] - 1) * windows.stride[axis];
            let taps = (windows.kernel[axis] - 1) * windows.dilation[axis];
            (outputs + taps) / step[axis] + 1
        });
        let of_slice = windows.output[1].div_ceil(tile[1]) * windows.output[2];
        let of_plane = u64::from(windows.output[0].div_ceil(tile[0])) * u64::from(of_slice);
        Self {
            windows: *windows,
            tile,
            lines,
            step,
            plane_tiles: of_plane,
            columns: Reciprocal::of(windows.output[2]),
            slice: Reciprocal::of(of_slice),
            near: Reciprocal::of(of_plane.min(FAR.into()) as u32),
        }
    }

    /// Whether a tile is more than an output.
    #[must_use]
    #[inline(always)]
    pub const fn shares_lines(&self) -> bool {
        self.tile[0] * self.tile[1] > 1
    }

    /// Tiles.
    #[must_use]
    #[inline(always)]
    pub const fn tiles(&self) -> u64 {
        self.windows.planes * self.plane_tiles
    }

    /// About the instructions that all threads execute for as many outputs as a plane has.
    fn instructions(&self) -> u64 {
        let lines = self.lines.map(u64::from);
        let [slices, rows] = self.tile.map(u64::from);
        let [t, r, s] = self.windows.kernel.map(u64::from);
        let reduced = lines[0] * lines[1] * (4 * s + 12);
        let shared = lines[0] * rows * (3 * r + 4) + slices * rows * (3 * t + 4);
        let of_tile = 80 + reduced + u64::from(self.shares_lines()) * shared;
        self.plane_tiles.saturating_mul(of_tile)
    }

    /// Launch of the kernel.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.tiles().div_ceil(u64::from(BLOCK_THREADS));
        let lines =
            u64::from(self.shares_lines()) * self.lines.map(u64::from).iter().product::<u64>();
        let bytes = lines * u64::from(BLOCK_THREADS) * size_of::<f32>() as u64;
        Some(LaunchShape::linear(blocks, BLOCK_THREADS)?.with_shared(bytes as u32))
    }
}

/// The greatest common divisor.
const fn common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A pool of channels-last tensors, of which a thread takes runs of [`OUTPUTS_PER_THREAD`] windows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NhwcWindowGeometry {
    /// The pool of planes.
    pub windows: WindowGeometry,
    /// Its blocks.
    pub blocks: RunBlocks,
}

impl NhwcWindowGeometry {
    /// The pool `windows` of planes, of which so many are the channels of a sample.
    ///
    /// # Errors
    /// What [`RunBlocks::new`] refuses.
    pub fn new(windows: &WindowGeometry, channels: u32) -> Result<Self, Refusal> {
        let n = windows.planes.checked_div(channels.into()).unwrap_or(0);
        let [_, _, columns] = windows.input;
        let run = OUTPUTS_PER_THREAD as u32;
        Ok(Self {
            windows: *windows,
            blocks: RunBlocks::new((n, channels), columns, windows.output, run, MAX_VECTORS)?,
        })
    }

    /// Launch of the kernel.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        self.blocks.shape()
    }
}
