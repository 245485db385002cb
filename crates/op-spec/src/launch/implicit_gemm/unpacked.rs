//! Inputs that are cells as they lie, so that nothing packs them.
//!
//! Where the channels of a pixel are neighbours in memory, as in PyTorch's `channels_last`, eight 16-bit ones of them are the cell that
//! packing would make, and eight f32 are when they are rounded (`pieces`). The product of wide tiles brings such cells from where they lie (`lines`).

use super::{CELL_VALUES, CELL_WORDS};
use crate::launch::conv::ConvGeometry;

/// Where the cells of an unpacked input lie, or of one that is packed in lines: from a pixel to the next one along each axis, in cells. The planes of a pixel follow one another.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellStrides {
    /// From a sample to the next.
    pub sample: u32,
    /// From a slice to the next.
    pub slice: u32,
    /// From a row to the next.
    pub row: u32,
    /// From a column to the next.
    pub column: u32,
    /// 1 if the product reads the input where it lies, else 0: then it is packed, in lines of cells as such an input has them or in planes.
    pub is_unpacked: u32,
    /// Planes of a pixel that lie side by side in the patch: 2 or 4, of one plane 1; 0 if the input is packed in planes.
    pub line_planes: u32,
    /// Boxes that a patch of lines has of the planes of a line.
    pub boxes: u32,
}

impl CellStrides {
    /// Those of an input that is packed in planes.
    pub const PACKED: Self = Self {
        sample: 0,
        slice: 0,
        row: 0,
        column: 0,
        is_unpacked: 0,
        line_planes: 0,
        boxes: 0,
    };

    /// Those of an input of one element a value with these strides of samples, channels, slices, rows and columns, in elements, if the
    /// channels are neighbours and every pixel starts on a whole cell.
    pub(super) fn new(conv: &ConvGeometry, strides: [i64; 5]) -> Option<Self> {
        let extents = [conv.n, 1, conv.d.into(), conv.h.into(), conv.w.into()];
        let are_cells = conv.group_c.is_multiple_of(CELL_VALUES) && strides[1] == 1;
        if !are_cells || extents.contains(&0) {
            return None;
        }
        let mut cells = [0; 5];
        for (axis, of_axis) in cells.iter_mut().enumerate() {
            // Of one index no stride matters.
            if extents[axis] > 1 {
                let elements = u64::try_from(strides[axis]).ok()?;
                *of_axis = elements / u64::from(CELL_VALUES);
                // A tensor map has no stride of 0.
                if *of_axis == 0 || !elements.is_multiple_of(CELL_VALUES.into()) {
                    return None;
                }
            }
        }
        let [sample, _, slice, row, column] = cells;
        let as_u32 = |cells: u64| u32::try_from(cells).ok();
        let strides = Self {
            sample: as_u32(sample)?,
            slice: as_u32(slice)?,
            row: as_u32(row)?,
            column: as_u32(column)?,
            is_unpacked: 1,
            line_planes: 0,
            boxes: 0,
        };
        // Kernels count the words of a sample in 32 bits.
        let last = strides.last_pixel(conv).checked_add(planes(conv))?;
        (last <= u64::from(u32::MAX / CELL_WORDS)).then_some(strides)
    }

    /// Those of what packing makes in lines of `planes` planes, of all groups, if 32 bits count the words of a sample.
    pub(super) fn packed(conv: &ConvGeometry, planes: u32) -> Option<Self> {
        let row = conv.w.checked_mul(planes)?;
        let slice = conv.h.checked_mul(row)?;
        let sample = conv.d.checked_mul(slice)?;
        let are_counted = (1..=u32::MAX / CELL_WORDS).contains(&sample);
        are_counted.then_some(Self {
            sample,
            slice,
            row,
            column: planes,
            ..Self::PACKED
        })
    }

    /// How far the last pixel of a sample is from its first.
    const fn last_pixel(&self, conv: &ConvGeometry) -> u64 {
        // Each product is below 2^63, and so is the sum of those of a tensor that is in memory; of others it is refused.
        let slices = (conv.d - 1) as u64 * self.slice as u64;
        let rows = (conv.h - 1) as u64 * self.row as u64;
        let columns = (conv.w - 1) as u64 * self.column as u64;
        slices.saturating_add(rows).saturating_add(columns)
    }

    /// Cells that one sample spans, from its first pixel to the last.
    #[must_use]
    #[inline(always)]
    pub const fn sample_cells(&self, conv: &ConvGeometry) -> u64 {
        self.last_pixel(conv) + planes(conv)
    }

    /// Cells that all samples span.
    #[must_use]
    #[inline(always)]
    pub const fn all_cells(&self, conv: &ConvGeometry) -> u64 {
        (conv.n - 1) * self.sample as u64 + self.sample_cells(conv)
    }
}

/// Planes of cells of all groups.
const fn planes(conv: &ConvGeometry) -> u64 {
    (conv.group_c / CELL_VALUES) as u64 * conv.groups as u64
}
