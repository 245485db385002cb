//! `copy_strided`: copies an array with any strides to a dense row-major one.
//!
//! The host first drops axes of extent 1 and merges neighbouring axes that are contiguous with each other.
//! That leaves few axes, most often two or three. There are two kinds of copies:
//!
//! - *Rows*: a block writes [`BLOCK_ELEMENTS`] consecutive elements, and reads them from their strided
//!   positions. With an innermost stride of 1, both sides are coalesced.
//! - *Tiles*: if another axis has a smaller stride than the innermost one, a block transposes the two through
//!   shared memory. Threads read along `i`, the axis of the smallest stride, and write along `j`, the
//!   innermost axis of the target. Either may be shorter than a warp. Lanes then continue in the next row, so
//!   that accesses to dense memory are still coalesced.
//!
//! Rows of a tile in shared memory are along its longer side. The pitch of the rows exceeds a multiple of the
//! 32 banks by `ceil(32 / rows)`. The lanes of a warp that walk down the columns therefore touch each bank
//! once.

use super::reciprocal::Reciprocal;
use super::{LaunchShape, VECTOR_ELEMENTS, WARP_THREADS};
use crate::mode::mode;

mod collapsed;

pub use collapsed::{Collapsed, MAX_AXES, StridedAxis};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 5;

/// Vectors of a thread in a block of rows.
pub const VECTORS_PER_THREAD: usize = 4;

/// Elements that all threads of a block write in one round.
pub const ROUND_ELEMENTS: usize = BLOCK_THREADS as usize * VECTOR_ELEMENTS;

/// The maximum number of elements that a block writes.
pub const BLOCK_ELEMENTS: usize = ROUND_ELEMENTS * VECTORS_PER_THREAD;

/// The limit for 32-bit positions of a block along an axis. Longer axes count as this long, because a block
/// crosses their end at most once.
pub const FAR: u64 = 1 << 30;

/// The maximum number of words of a tile in shared memory. The pitch is the rows' length, rounded up to the
/// banks, plus `ceil(32 / rows)`.
pub const TILE_WORDS: usize = BLOCK_ELEMENTS + 2 * TILE_SIDE as usize;

/// Length of a tile's sides. If an axis is shorter, the other side is longer, a multiple of this length.
const TILE_SIDE: u64 = 64;

/// The minimum number of elements of a tile. Arrays with fewer elements in both axes are copied in rows; the
/// cache serves their neighbouring reads.
const LEAST_TILE: u64 = 512;

/// An axis along which blocks are counted, in steps of elements or of tiles.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyAxis {
    /// Number of steps.
    pub extent: u64,
    /// Steps of all axes within this one.
    pub inner: u64,
    /// Elements of the source from one step to the next.
    pub stride: i64,
    /// Elements of the target from one step to the next.
    pub target: u64,
    /// Reciprocal of the extent, at most [`FAR`].
    pub near: Reciprocal,
}

/// A side of a tile.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySide {
    /// Number of indices of the axis.
    pub extent: u64,
    /// Elements of the source from one index to the next.
    pub stride: i64,
    /// Elements of the target from one index to the next.
    pub target: u64,
    /// Number of indices per tile.
    pub length: Reciprocal,
    /// Elements of shared memory from one index to the next.
    pub shared: u32,
}

mode! {
    /// The work of a block.
    pub CopyMode {
        /// Consecutive elements of the target.
        ROWS = 0,
        /// A tile, transposed through shared memory.
        TILES = 1,
    }

    /// The loads of a block that copies rows.
    pub RowLoads {
        /// Element by element.
        ELEMENTS = 0,
        /// Vectors of four aligned elements.
        VECTORS = 1,
    }
}

impl CopyMode {
    /// Whether blocks copy tiles.
    #[must_use]
    #[inline(always)]
    pub const fn is_tiled(self) -> bool {
        self.0 != Self::ROWS.0
    }
}

impl RowLoads {
    /// Whether rows are read in vectors.
    #[must_use]
    #[inline(always)]
    pub const fn are_vectors(self) -> bool {
        self.0 != Self::ELEMENTS.0
    }
}

/// The copy kernel's by-value argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyGeometry {
    /// Elements of the array.
    pub elements: u64,
    /// Elements of memory in front of the element with all indices 0.
    pub before: u64,
    /// Elements of memory from the first used one to the last.
    pub span: u64,
    /// The axes, outermost first. In a copy of tiles, the last two are `i` and `j`.
    pub axes: [CopyAxis; MAX_AXES],
    /// Number of axes.
    pub count: u32,
    /// The work of a block.
    pub mode: CopyMode,
    /// The loads of rows.
    pub loads: RowLoads,
    /// The axis along which threads read.
    pub i: CopySide,
    /// The axis along which threads write.
    pub j: CopySide,
}

impl CopyGeometry {
    /// Returns the copy of an array. `is_aligned` says that the element with all indices 0 is at a multiple
    /// of [`VECTOR_ELEMENTS`] elements in memory.
    pub fn new(array: &Collapsed, is_aligned: bool) -> CopyGeometry {
        let axes = array.axes();
        // An extent of 0 takes precedence, because the product of the others may overflow.
        let extents = axes.iter().map(|axis| axis.extent);
        let elements = match extents.clone().any(|extent| extent == 0) {
            true => 0,
            false => extents.product(),
        };
        let (mut before, mut after) = (0u64, 0u64);
        for axis in axes.iter().filter(|_| elements > 0) {
            let reach = (axis.extent - 1).saturating_mul(axis.stride.unsigned_abs());
            let side = if axis.stride < 0 {
                &mut before
            } else {
                &mut after
            };
            *side = side.saturating_add(reach);
        }
        let mut geometry = CopyGeometry {
            elements,
            before,
            span: if elements > 0 { before + after + 1 } else { 0 },
            ..CopyGeometry::rows(axes, is_aligned)
        };
        if let Some((i, [side_i, side_j])) = sides(axes) {
            let tiled = geometry.tiled(axes, i, side_i, side_j);
            if tiled.shape().is_some() {
                geometry = tiled;
            }
        }
        geometry
    }

    fn rows(axes: &[StridedAxis], is_aligned: bool) -> CopyGeometry {
        let steps = axes.iter().map(|axis| (axis.extent, axis.stride));
        let (row, outer) = axes.split_last().expect("at least one axis");
        let vector = VECTOR_ELEMENTS as i64;
        let has_vectors = is_aligned
            && row.stride == 1
            && row.extent.is_multiple_of(VECTOR_ELEMENTS as u64)
            && outer.iter().all(|axis| axis.stride % vector == 0);
        let none = CopySide {
            extent: 1,
            stride: 0,
            target: 0,
            length: Reciprocal::of(1),
            shared: 0,
        };
        let (axes, count) = counted(steps);
        CopyGeometry {
            elements: 0,
            before: 0,
            span: 0,
            axes,
            count,
            mode: CopyMode::ROWS,
            loads: if has_vectors {
                RowLoads::VECTORS
            } else {
                RowLoads::ELEMENTS
            },
            i: none,
            j: none,
        }
    }

    /// Returns the same copy in tiles of axis `i` and the last one.
    fn tiled(&self, axes: &[StridedAxis], i: usize, side_i: u64, side_j: u64) -> CopyGeometry {
        let last = axes.len() - 1;
        let target = |axis: usize| self.axes[axis].target;
        // Rows of shared memory are along the longer side.
        let (rows, length) = (side_i.min(side_j), side_i.max(side_j));
        let banks = u64::from(WARP_THREADS);
        let columns = banks.div_ceil(rows);
        let pitch = (length + banks - 1 - columns) / banks * banks + columns;
        let side = |axis: usize, length: u64, shared: u64| CopySide {
            extent: axes[axis].extent,
            stride: axes[axis].stride,
            target: target(axis),
            length: Reciprocal::of(length as u32),
            shared: shared as u32,
        };
        let (shared_i, shared_j) = if side_i <= side_j {
            (pitch, 1)
        } else {
            (1, pitch)
        };
        let others = (0..last).filter(|&axis| axis != i);
        let order = others.chain([i, last]);
        let mut targets = [0; MAX_AXES];
        let mut steps = [(1, 0); MAX_AXES];
        for (at, axis) in order.enumerate() {
            let StridedAxis { extent, stride } = axes[axis];
            let length = if axis == i {
                side_i
            } else if axis == last {
                side_j
            } else {
                1
            };
            steps[at] = (extent.div_ceil(length), stride.wrapping_mul(length as i64));
            targets[at] = target(axis) * length;
        }
        let (mut counted, count) = counted(steps[..axes.len()].iter().copied());
        for (axis, target) in counted.iter_mut().zip(targets) {
            axis.target = target;
        }
        CopyGeometry {
            axes: counted,
            count,
            mode: CopyMode::TILES,
            loads: RowLoads::ELEMENTS,
            i: side(i, side_i, shared_i),
            j: side(last, side_j, shared_j),
            ..*self
        }
    }

    /// The kernel's launch.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = if self.elements == 0 {
            0
        } else if !self.mode.is_tiled() {
            self.elements.div_ceil(BLOCK_ELEMENTS as u64)
        } else {
            match self.axes[0].inner.checked_mul(self.axes[0].extent) {
                Some(blocks) => blocks,
                None => return None,
            }
        };
        LaunchShape::linear(blocks, BLOCK_THREADS)
    }
}

/// Returns axes with these extents and source strides. The target's strides are valid for steps of one
/// element.
fn counted(
    steps: impl DoubleEndedIterator<Item = (u64, i64)> + ExactSizeIterator,
) -> ([CopyAxis; MAX_AXES], u32) {
    let none = CopyAxis {
        extent: 1,
        inner: 1,
        stride: 0,
        target: 0,
        near: Reciprocal::of(1),
    };
    let (mut axes, count) = ([none; MAX_AXES], steps.len());
    let mut inner = 1u64;
    for (axis, (extent, stride)) in axes[..count].iter_mut().rev().zip(steps.rev()) {
        *axis = CopyAxis {
            extent,
            inner,
            stride,
            target: inner,
            near: Reciprocal::of(extent.min(FAR) as u32),
        };
        inner = inner.saturating_mul(extent);
    }
    (axes, count as u32)
}

/// Returns the axis to read along and the sides of tiles, if tiles are faster than rows.
fn sides(axes: &[StridedAxis]) -> Option<(usize, [u64; 2])> {
    let (last, outer) = axes.split_last()?;
    let outer = outer.iter().enumerate().rev();
    let moving = outer.filter(|(_, axis)| axis.stride != 0);
    let (i, read) = moving.min_by_key(|(_, axis)| axis.stride.unsigned_abs())?;
    if read.stride.unsigned_abs() >= last.stride.unsigned_abs() {
        return None;
    }
    let most = BLOCK_ELEMENTS as u64;
    let longer =
        |extent: u64, other: u64| extent.min((most / other / TILE_SIDE).max(1) * TILE_SIDE);
    let side_i = read.extent.min(TILE_SIDE);
    let side_j = longer(last.extent, side_i);
    let side_i = longer(read.extent, side_j);
    (side_i * side_j >= LEAST_TILE).then_some((i, [side_i, side_j]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(shape: &[usize], strides: &[isize]) -> CopyGeometry {
        CopyGeometry::new(&Collapsed::new(shape, strides).unwrap(), true)
    }

    #[test]
    fn tiles_are_for_what_is_read_across() {
        let channels_last = geometry(&[16, 3, 10, 10, 10], &[3000, 1, 300, 30, 3]);
        assert_eq!(channels_last.mode, CopyMode::TILES);
        assert_eq!((channels_last.i.extent, channels_last.j.extent), (3, 1000));
        let last = &channels_last.axes[..3];
        assert_eq!([last[0].extent, last[1].extent, last[2].extent], [16, 1, 1]);
        assert_eq!(geometry(&[300, 300], &[400, 1]).mode, CopyMode::ROWS);
        assert_eq!(geometry(&[300, 300], &[1, 300]).mode, CopyMode::TILES);
        assert_eq!(geometry(&[1000, 4, 5], &[20, 1, 4]).mode, CopyMode::ROWS);
        assert_eq!(geometry(&[300, 300], &[0, 1]).mode, CopyMode::ROWS);
        assert_eq!(geometry(&[300, 300], &[1, 0]).mode, CopyMode::ROWS);
    }

    #[test]
    fn tiles_fit_shared_memory_and_blocks_a_grid() {
        for i in (1..80).chain([1000, 5000]) {
            for j in (1..80).chain([1000, 5000]) {
                let g = geometry(&[i, j], &[1, i as isize]);
                if !g.mode.is_tiled() {
                    continue;
                }
                let [a, b] = [&g.i, &g.j].map(|side| u64::from(side.length.divisor));
                assert!(a * b <= BLOCK_ELEMENTS as u64, "{i} {j}");
                let last = (a - 1) * u64::from(g.i.shared) + (b - 1) * u64::from(g.j.shared);
                assert!(last < TILE_WORDS as u64, "{i} {j}: {last}");
                let [pitch, rows] = [g.i.shared.max(g.j.shared), a.min(b) as u32];
                assert!(u64::from(pitch) >= a.max(b), "{i} {j}");
                assert_eq!(pitch % 32, 32u32.div_ceil(rows) % 32, "{i} {j}");
            }
        }
        let huge = geometry(&[1 << 20, 1 << 20], &[1, 1 << 20]);
        assert_eq!(huge.shape().unwrap().grid[0], 1 << 28);
        let many = geometry(&[1 << 40, 3, 512], &[3 * 512, 1, 3]);
        assert_eq!((many.mode, many.shape()), (CopyMode::ROWS, None));
    }

    #[test]
    fn memory_before_the_first_element_is_counted() {
        let g = geometry(&[4, 3], &[-5, 1]);
        assert_eq!((g.elements, g.before, g.span), (12, 15, 18));
        let empty = geometry(&[4, 0], &[-5, 1]);
        assert_eq!((empty.span, empty.shape().unwrap().is_empty()), (0, true));
    }

    #[test]
    fn vectors_are_read_where_all_rows_begin_with_one() {
        let has = |shape: &[usize], strides: &[isize]| geometry(shape, strides).loads.are_vectors();
        assert!(has(&[3, 8], &[12, 1]));
        assert!(!has(&[3, 8], &[13, 1]));
        assert!(!has(&[3, 9], &[12, 1]));
        assert!(!has(&[3, 8], &[24, 2]));
    }
}
