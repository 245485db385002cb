//! Pools of overlapping windows.
//!
//! Windows are reduced along one axis after the other. A *line* is the columns of a window in one row of the
//! input. A thread computes a *tile*: outputs of one column whose windows share lines, which are in shared
//! memory. Neighbouring threads compute neighbouring columns. The module `pool` has the other pools.

use super::LaunchShape;
use super::norm::{ENOUGH_BLOCKS, FAR};
use super::pool::WindowGeometry;
use super::reciprocal::Reciprocal;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 128;

/// Minimum resident blocks of the kernels per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 6;

/// Lines that a thread reduces at the same time.
pub const SIDE_BY_SIDE: u32 = 8;

/// The maximum number of lines of a thread.
const MAX_LINES: u32 = 32;

/// A pool of planes, and its distribution over threads.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverlappingGeometry {
    /// The pool. All rows of a tensor may count as one plane.
    pub windows: WindowGeometry,
    /// Slices and rows of outputs of a tile.
    pub tile: [u32; 2],
    /// Slices and rows of lines of a tile.
    pub lines: [u32; 2],
    /// Steps between lines in the input.
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

impl OverlappingGeometry {
    /// Returns the pool `windows` in tiles with the least estimated number of instructions, among tiles whose
    /// number suffices for all multiprocessors. Returns `None` if separate windows need fewer instructions.
    #[must_use]
    pub fn new(windows: &WindowGeometry) -> Option<Self> {
        let alone = instructions_alone(windows);
        let windows = of_rows(windows);
        let enough = ENOUGH_BLOCKS * u64::from(BLOCK_THREADS);
        let tiles = (1..=4).flat_map(|slices| (1..=24).map(move |rows| [slices, rows]));
        tiles
            .map(|tile| Self::tiled(&windows, tile))
            .filter(|of| of.lines[0] * of.lines[1] <= MAX_LINES && of.tiles() >= enough)
            .map(|of| (of.instructions(), of))
            .min_by_key(|(instructions, _)| *instructions)
            .filter(|(instructions, _)| 5 * instructions <= 4 * alone)
            .map(|(_, of)| of)
    }

    /// Returns the pool in tiles of these slices and rows of outputs; a tile is no longer than the output.
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

    /// Number of tiles.
    #[must_use]
    #[inline(always)]
    pub const fn tiles(&self) -> u64 {
        self.windows.planes * self.plane_tiles
    }

    /// Estimates the number of instructions of all threads.
    fn instructions(&self) -> u64 {
        let [slices, rows] = self.tile.map(u64::from);
        let [t, r, s] = self.windows.kernel.map(u64::from);
        let side_by_side = self.lines[1].next_multiple_of(SIDE_BY_SIDE);
        let lines = u64::from(self.lines[0]) * u64::from(side_by_side) * (4 * s + 12);
        let of_rows = u64::from(self.lines[0]) * rows * (3 * r + 4);
        let of_slices = slices * rows * (3 * t + 8);
        self.tiles()
            .saturating_mul(80 + lines + of_rows + of_slices)
    }

    /// The kernels' launch.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.tiles().div_ceil(u64::from(BLOCK_THREADS));
        let held = self.lines[0] * self.lines[1] * BLOCK_THREADS;
        let shape = LaunchShape::linear(blocks, BLOCK_THREADS)?;
        Some(shape.with_shared(held * size_of::<f32>() as u32))
    }
}

/// Estimates the number of instructions of all threads if each window is reduced separately.
fn instructions_alone(windows: &WindowGeometry) -> u64 {
    let elements = windows
        .kernel
        .iter()
        .map(|&taps| u64::from(taps))
        .product::<u64>();
    let outputs = windows.planes * windows.plane_outputs();
    outputs.saturating_mul(20 + 14 * elements)
}

/// Returns the same windows with the rows of all planes as one plane, if windows are parts of rows and the
/// number of outputs is below [`Reciprocal::LIMIT`].
fn of_rows(windows: &WindowGeometry) -> WindowGeometry {
    let are_rows = (0..2).all(|axis| {
        windows.kernel[axis] == 1 && windows.stride[axis] == 1 && windows.padding[axis] == 0
    });
    let [d, h, w] = windows.input;
    let rows = windows.planes * u64::from(d) * u64::from(h);
    let columns = windows.output[2];
    if !are_rows || rows * u64::from(columns) >= u64::from(Reciprocal::LIMIT) {
        return *windows;
    }
    WindowGeometry {
        planes: 1,
        input: [1, rows as u32, w],
        output: [1, rows as u32, columns],
        ..*windows
    }
}

/// Computes the greatest common divisor.
const fn common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
