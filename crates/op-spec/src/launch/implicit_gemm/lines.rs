//! Patches of lines, which tensor maps bring.
//!
//! Of a pixel such a patch has [`line_planes`](CellStrides::line_planes) planes side by side, a *line*, as they lie in memory: an input that is read where it
//! lies has them so, and one that is packed for it. Lines lie in boxes, which a tensor map brings one by one, with zeros for what is not in the input:
//! ```text
//! patch[planes of a line][slice of the filter][rest of the row's stride][strip][rest of the column's stride] box[row][slice][column]
//! ```
//! So a strip is apart from the next one, where a patch of planes has their rows in turn: what a box has outside of the input is zero, along each axis by itself, and
//! that of one strip may be inside of another. Of two strips every second octet of pixels is of the same one, and these are multiplied in turn. Of more strips
//! boxes are single rows, in the order of a patch of planes. In the layout that is not of octets the patch is one box.

use super::tile::INSTRUCTION_PIXELS;
use super::wide::TARGET_BYTES;
use super::{
    CELL_BYTES, CELL_VALUES, CellStrides, GemmConfig, GemmDevice, GemmGeometry, MAX_PATCH_CELLS,
    Pieces, STEP_CELLS, WIDE,
};

/// Most lines of a box along an axis, those between what is brought counted.
const MOST_BOX_LINES: u32 = 256;

/// Longest step of a box along an axis.
const LONGEST_STEP: u32 = 8;

/// Most strips of a tile whose boxes have all rows: every second octet of pixels is of the same one.
const MOST_WHOLE_STRIPS: u32 = 2;

/// Planes of a line where it is as long as it may be.
const LONG_LINE: u32 = 4;

/// Filter slots that long lines must leave room for: with fewer, what multiplies waits for filters.
pub(super) const FEWEST_FILTER_SLOTS: u32 = 4;

impl GemmGeometry {
    /// Whether the patch is of lines, in boxes.
    #[must_use]
    #[inline(always)]
    pub const fn has_lines(&self) -> bool {
        self.cells.line_planes != 0
    }

    /// The binary logarithm of the cells of a line; 0 where planes are apart.
    #[must_use]
    #[inline(always)]
    pub const fn line_shift(&self) -> u32 {
        self.cells.line_planes >> 1
    }

    /// Columns, slices and rows of a box.
    #[must_use]
    #[inline(always)]
    pub const fn box_extents(&self) -> [u32; 3] {
        match self.strips {
            0 => [self.patch_columns, self.patch_d, self.patch_h],
            1..=MOST_WHOLE_STRIPS => [self.patch_columns, self.tile_d, self.residue_rows],
            _ => [self.patch_columns, 1, 1],
        }
    }

    /// What a box has along its axes, in the order of its lines: columns, and slices and rows, or rows and slices where tiles are not of octets.
    #[must_use]
    #[inline(always)]
    pub const fn box_axes(&self) -> [u32; 3] {
        let [columns, slices, rows] = self.box_extents();
        if self.strips == 0 {
            [columns, rows, slices]
        } else {
            [columns, slices, rows]
        }
    }

    /// Rows and slices of a tile's patch that have boxes of their own.
    #[must_use]
    #[inline(always)]
    pub const fn box_rows(&self) -> [u32; 2] {
        if self.strips > MOST_WHOLE_STRIPS {
            [self.residue_rows, self.tile_d]
        } else {
            [1; 2]
        }
    }

    /// From a column, slice or row of the padded input that a box has to the next one.
    #[must_use]
    pub const fn box_steps(&self) -> [u32; 3] {
        match self.strips {
            0 => [1; 3],
            _ => [self.conv.stride_w, self.slice_stride(), self.conv.stride_h],
        }
    }

    /// Lines of a box.
    #[must_use]
    #[inline(always)]
    pub const fn box_used(&self) -> u32 {
        let [columns, slices, rows] = self.box_extents();
        columns * slices * rows
    }

    /// Lines from a box to the next.
    #[must_use]
    #[inline(always)]
    pub const fn box_lines(&self) -> u32 {
        let aligned = if self.strips > MOST_WHOLE_STRIPS {
            (TARGET_BYTES / CELL_BYTES) >> self.line_shift()
        } else {
            INSTRUCTION_PIXELS
        };
        (self.box_used() + aligned - 1) & !(aligned - 1)
    }

    /// Boxes of the planes of a line, which [`CellStrides::boxes`] then says.
    const fn boxes(&self) -> u32 {
        let [rows, slices] = self.box_rows();
        match self.strips {
            0 => 1,
            strips => {
                self.filter_slices * self.row_residues * rows * slices * strips * self.residues
            }
        }
    }

    /// How many lines from an octet of pixels to the next one, and from that to the one behind it.
    const fn octet_lines(&self) -> [u32; 2] {
        let to_next = match self.strips {
            0 => INSTRUCTION_PIXELS,
            1 => self.patch_columns,
            _ => self.residues * self.box_lines(),
        };
        // Of two strips every second octet is of the same one.
        let to_second = if self.strips == MOST_WHOLE_STRIPS {
            self.patch_columns
        } else {
            2 * to_next
        };
        [to_next, to_second]
    }

    /// From a row of the filter's reach to the next in the patch of lines of octets, in lines.
    #[must_use]
    #[inline(always)]
    pub const fn row_lines(&self) -> u32 {
        if self.strips > MOST_WHOLE_STRIPS {
            self.tile_d * self.strips * self.residues * self.box_lines()
        } else {
            self.tile_d * self.patch_columns
        }
    }

    /// Lines of the patch: those of all boxes, and what octets that are not used reach.
    fn patch_lines(&self) -> Option<u32> {
        let conv = &self.conv;
        let octets = WIDE.pixels() / INSTRUCTION_PIXELS;
        let brought = self.boxes().checked_mul(self.box_lines())?;
        let [to_next, to_second] = self.octet_lines();
        // The last tap's line in the first box of its rows, and the last octet's from the first.
        let (first_box, last_tap) = match self.strips {
            0 => {
                let slices = (self.filter_slices - 1) * conv.dilation_d * self.patch_h;
                let rows = (slices + (conv.r - 1) * conv.dilation_h) * self.patch_columns;
                (0, rows + self.patch_columns - self.tile_w)
            }
            _ => {
                let of_rows = brought / (self.filter_slices * self.row_residues);
                let rows = (conv.r - 1) * conv.dilation_h / conv.stride_h * self.row_lines();
                let columns = self.patch_columns - self.tile_w.min(INSTRUCTION_PIXELS);
                let residues = (self.residues - 1) * self.box_lines();
                (brought - of_rows, residues + rows + columns)
            }
        };
        let last_octet = to_next + (octets / 2 - 1) * to_second;
        let reached = first_box + last_tap + last_octet + INSTRUCTION_PIXELS;
        // Whatever follows starts on whole boxes' bytes, too.
        brought
            .max(reached)
            .checked_next_multiple_of(TARGET_BYTES / CELL_BYTES)
    }

    /// The same with lines of `planes` planes, which every stage then has, if a tensor map can bring its boxes.
    fn with_lines(&self, planes: u32) -> Option<Self> {
        let is_unpacked = self.cells.is_unpacked != 0;
        // Behind the last plane of a group are planes of the next one, which are not zero.
        let are_alone = !is_unpacked || self.conv.groups == 1 || self.planes.is_multiple_of(planes);
        let mut lined = *self;
        lined.cells.line_planes = planes;
        if !is_unpacked {
            lined.planes = self.planes.checked_next_multiple_of(planes)?;
        }
        if planes > self.stage_planes {
            lined.stage_planes = planes;
            lined.stages /= 2;
            lined.steps *= 2;
            lined.offsets *= 2;
            lined.slice_planes = planes;
        }
        let reaches = (self.box_extents().into_iter()).zip(self.box_steps());
        let fit = reaches.into_iter().all(|(lines, step)| {
            let reached = (lines - 1).checked_mul(step);
            step <= LONGEST_STEP && reached.is_some_and(|reached| reached < MOST_BOX_LINES)
        });
        if !are_alone || !fit {
            return None;
        }
        lined.cells.boxes = lined.boxes();
        let patch_cells = lined.patch_lines()?;
        lined.octets_in_turn = lined.octet_lines().map(|lines| lines << lined.line_shift());
        (patch_cells <= MAX_PATCH_CELLS).then_some(Self {
            patch_cells,
            ..lined
        })
    }

    /// Channels of a pixel where it lies, those that packing adds among them.
    #[must_use]
    pub const fn line_channels(&self) -> u32 {
        if self.cells.is_unpacked != 0 {
            self.conv.input_channels()
        } else {
            self.conv.groups * self.planes * CELL_VALUES
        }
    }
}

impl GemmConfig {
    /// The same for an input that lies in memory with these strides of samples, channels, slices, rows and columns, in elements, from a
    /// multiple of 16 bytes on, if the product can read it there. Results are the same bits as from a packed input.
    #[must_use]
    pub fn unpacked(&self, strides: [i64; 5], device: &GemmDevice) -> Option<Self> {
        if !self.format.is_stored() && !self.may_round() {
            return None;
        }
        let cells = CellStrides::new(&self.geometry.conv, strides)?;
        let lined = self.in_lines(device, |_| Some(cells))?;
        (self.format.is_stored() || lined.rounds_on(device)).then_some(lined)
    }

    /// The same for an input that is packed in lines, as an unpacked one lies, if the product can read it there. Results are the same bits as from one that is packed in planes.
    #[must_use]
    pub fn packed_in_lines(&self, device: &GemmDevice) -> Option<Self> {
        let g = &self.geometry;
        // Pixels are packed two by two.
        if g.pair_cells > 0 || !g.conv.input_pixels().is_multiple_of(2) {
            return None;
        }
        let lined = self.in_lines(device, |planes| {
            let of_pixel = g.planes.checked_next_multiple_of(planes)?;
            CellStrides::packed(&g.conv, g.conv.groups.checked_mul(of_pixel)?)
        });
        lined.filter(|lined| {
            let g = &lined.geometry;
            g.pack_shape().is_some() && g.repack_shape().is_some()
        })
    }

    /// The same with a patch of lines, of an input whose cells lie as `cells` says for the planes of a line.
    fn in_lines(
        &self,
        device: &GemmDevice,
        cells: impl Fn(u32) -> Option<CellStrides>,
    ) -> Option<Self> {
        let g = &self.geometry;
        // Octets of values that are stored as they are multiplied are so in turn, which two strips take; it costs small tiles some time.
        let are_in_turn = self.format.is_stored() || g.strips != MOST_WHOLE_STRIPS;
        let may_have_lines = self.tile.is_wide() && self.format.parts == 1;
        if !may_have_lines || !are_in_turn || g.cell_channels != CELL_VALUES {
            return None;
        }
        let with_lines = |planes| {
            let cells = GemmGeometry {
                cells: cells(planes)?,
                ..*g
            };
            let mut geometry = cells.with_lines(planes)?;
            let rounded = cells.cells.is_unpacked * u32::from(!self.format.is_stored());
            geometry.pieces = Pieces::of(&geometry, rounded);
            let lined = Self { geometry, ..*self };
            lined.wide_rings(device).map(|_| lined)
        };
        if g.pair_cells > 0 {
            return with_lines(1);
        }
        let short = with_lines(STEP_CELLS);
        let long = with_lines(LONG_LINE).filter(|long| self.suits_long_lines(long));
        // Filters that come again and again cost more than long lines gain, and so do filters that are waited for.
        let stay = |lined: &Self| {
            lined
                .wide_rings(device)
                .is_some_and(|rings| rings.stay == 1)
        };
        let has_slots = |long: &Self| {
            let rings = long.wide_rings(device);
            rings.is_some_and(|rings| rings.filters >= FEWEST_FILTER_SLOTS)
        };
        let short_stays = short.as_ref().is_some_and(stay);
        long.filter(|long| stay(long) || has_slots(long) && !short_stays)
            .or(short)
    }

    /// Whether `long`, the same with long lines, multiplies the same in the same order.
    fn suits_long_lines(&self, long: &Self) -> bool {
        let (g, stages) = (&self.geometry, long.geometry.stages);
        let are_joined = g.stage_planes == STEP_CELLS
            && g.planes.is_multiple_of(LONG_LINE)
            && (g.depth_stages == 1 || g.slice_planes == LONG_LINE)
            && g.steps == g.paired_steps()
            && stages.is_multiple_of(self.splits);
        are_joined || g.stage_planes.is_multiple_of(LONG_LINE)
    }
}
