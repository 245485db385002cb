//! Inputs that are cells as they lie, so that nothing packs them.
//!
//! Where the channels of a pixel are neighbours in memory, as in PyTorch's `channels_last`, eight 16-bit ones of them are the cell that
//! packing would make. The product of wide tiles brings such cells from where they lie, and zeros for what is not in the input.

use super::tile::INSTRUCTION_PIXELS;
use super::wide::PATCH_WARPS;
use super::{CELL_VALUES, CELL_WORDS, GemmConfig, GemmDevice, GemmGeometry, PLACE_BITS};
use crate::launch::conv::ConvGeometry;

/// Coordinates in a patch of an unpacked input are below this, which is what no cell has; the bit above is for comparing them.
pub const NO_COORDINATE: u32 = (1 << (PLACE_BITS - 1)) - 1;

/// Where the cells of an unpacked input lie: from a pixel to the next one along each axis, in cells. The planes of a pixel follow one another.
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
    /// 1 if the product reads the input where it lies, else 0: then it is packed.
    pub is_unpacked: u32,
}

/// Tenths of a cycle that a multiprocessor takes longer to bring a cell of a patch from where it lies than from packed planes, which come
/// in pieces of a whole row: where a block multiplies one tile at a time, and where it multiplies two, beside which more of it is hidden. That is where all
/// warps that bring patches have a slot to fill. Measured on an H200 where there is one tile, as what the product took longer over the cells that each
/// multiprocessor brings: up to 1 without a stride, 4 with one, and 18 where two slots left one warp to fill them. Of two tiles
/// it was not measured anew.
const BRINGING: [u64; 2] = [5, 3];

/// Tenths of a cycle in which all multiprocessors together copy and pack as many cells as there are of them: 45 for the copy, which changes the
/// order of axes, and 20.
const PACKING: u64 = 65;

/// Tenths of a cycle of the two launches that do so.
const PACKING_LAUNCHES: u64 = 70_000;

impl CellStrides {
    /// Those of an input that is packed.
    pub const PACKED: Self = Self {
        sample: 0,
        slice: 0,
        row: 0,
        column: 0,
        is_unpacked: 0,
    };

    /// Those of an input of 16-bit values with these strides of samples, channels, slices, rows and columns, in elements, if the
    /// channels are neighbours and every pixel starts on a whole cell.
    fn new(conv: &ConvGeometry, strides: [i64; 5]) -> Option<Self> {
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
                if !elements.is_multiple_of(CELL_VALUES.into()) {
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
        };
        // Kernels count the words of a sample in 32 bits.
        let last = strides.last_pixel(conv).checked_add(planes(conv))?;
        (last <= u64::from(u32::MAX / CELL_WORDS)).then_some(strides)
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

impl GemmGeometry {
    /// 1 if the two cells of a step are side by side in the patch, as two planes of a pixel of an unpacked input are in memory, else 0: then planes are apart. Where
    /// a sector of memory is 32 bytes of shared memory in one piece, it is one request to the level-2 cache, else two.
    #[must_use]
    #[inline(always)]
    pub const fn joined(&self) -> u32 {
        if self.pair_cells == 0 {
            self.cells.is_unpacked
        } else {
            0
        }
    }

    /// How many planes of an unpacked input neighbouring lanes bring of a pixel, so that they read what memory transfers at once: as many
    /// as the planes of every stage are a multiple of, up to four.
    #[must_use]
    #[inline(always)]
    pub const fn planes_together(&self) -> u32 {
        let most = self.stage_planes & self.stage_planes.wrapping_neg();
        if most < 4 { most } else { 4 }
    }
}

impl GemmConfig {
    /// The same for an input that lies in memory with these strides of samples, channels, slices, rows and columns, in elements, from a
    /// multiple of 16 bytes on, if the product can read it there. Results are the same bits as from a packed input;
    /// [`saves_packing`](Self::saves_packing) says whether they come sooner.
    #[must_use]
    pub fn unpacked(&self, strides: [i64; 5]) -> Option<Self> {
        let g = &self.geometry;
        if !self.tile.is_wide() || !self.format.is_stored() {
            return None;
        }
        let strips = g.strips.max(1) - 1;
        let columns =
            (strips * INSTRUCTION_PIXELS + g.patch_columns).checked_mul(g.conv.stride_w)?;
        if [g.patch_d, g.patch_h, columns]
            .iter()
            .any(|&extent| extent > NO_COORDINATE)
        {
            return None;
        }
        let geometry = GemmGeometry {
            cells: CellStrides::new(&g.conv, strides)?,
            ..*g
        };
        Some(Self { geometry, ..*self })
    }

    /// Of the config of an unpacked input: whether bringing cells anew for each tile from where they lie takes less time than copying and packing
    /// each once.
    #[must_use]
    pub fn saves_packing(&self, device: &GemmDevice) -> bool {
        let g = &self.geometry;
        let Some(rings) = self.wide_rings(device) else {
            return false;
        };
        let sets = u64::from(g.wide_sets(rings.tiles));
        let of_tile = u64::from(g.stages) * u64::from(g.stage_planes * g.patch_cells);
        let brought = g.items().saturating_mul(sets).saturating_mul(of_tile);
        let filling = u64::from(rings.filling_warps());
        let bringing = brought.saturating_mul(BRINGING[usize::from(rings.tiles == 2)]);
        let bringing = bringing.saturating_mul(PATCH_WARPS.into()) / filling;
        let cells = (g.conv.n * u64::from(g.conv.input_channels()))
            .saturating_mul(g.conv.input_pixels().into())
            / u64::from(CELL_VALUES);
        let launches = PACKING_LAUNCHES * u64::from(device.multiprocessors);
        bringing <= cells.saturating_mul(PACKING).saturating_add(launches)
    }
}
