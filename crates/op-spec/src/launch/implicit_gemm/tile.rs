//! Tiles of the product, and which pixels they are.

use super::wide;
use super::{CELL_WORDS, GemmGeometry, MAX_PATCH_CELLS, OPERAND_ROWS, STEP_CELLS, WARP_THREADS};

/// Warps of a block.
const WARPS: u32 = 4;

/// Pixels of one tensor-core instruction.
const INSTRUCTION_PIXELS: u32 = 8;

/// Filters times pixels of a block, and how its warps share them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmTile {
    /// Operands of 16 filters that a warp multiplies.
    pub operands: u32,
    /// *Octets*, eight pixels each, that a warp multiplies them with.
    pub pixel_octets: u32,
    /// Warps side by side along the filters; the others are so along the pixels.
    pub filter_warps: u32,
    /// Warpgroups that multiply; 0 if each warp does so by itself. Two of them have the filters in shared memory as well.
    pub warpgroups: u32,
}

/// 64 filters by 128 pixels, by a warpgroup. Eight pixels that multiply at once are neighbours in the patch, and
/// it is equally far from each eight to the next, so a tile has one of two layouts:
///
/// | | pixels | where |
/// |---|---|---|
/// | *flat* | as many cells of the patch in one piece as a block has pixels; those between the rows are not used | columns are no stride apart |
/// | *eights* | rows of eight pixels in one plane | anywhere |
pub const W64N128: GemmTile = GemmTile {
    warpgroups: 1,
    ..GemmTile::new(1, 16, 4)
};

/// 64 filters by 256 pixels, in the layouts of [`W64N128`], with all operands in shared memory: two warpgroups have such a tile
/// each, of the same pixels, or half of the pixels of one ([`super::wide`]).
pub const WIDE: GemmTile = GemmTile {
    warpgroups: 2,
    ..GemmTile::new(1, 32, 4)
};

/// Steps that tensor cores add to one sum of split values before it is put aside; see `kernels_gpu`'s
/// `implicit_gemm::warps`.
pub const KEPT_STEPS: u32 = 16;

/// Steps of the product that a warpgroup starts at once; stages have a multiple of them.
pub const CHAIN_STEPS: u32 = 3;

/// 64 filters by 128 pixels.
pub const M64N128: GemmTile = GemmTile::new(4, 4, 1);

/// 32 filters by 128 pixels.
pub const M32N128: GemmTile = GemmTile::new(2, 4, 1);

/// 16 filters by 256 pixels.
pub const M16N256: GemmTile = GemmTile::new(1, 8, 1);

/// 64 filters by 32 pixels, for problems that have few pixels.
pub const M64N32: GemmTile = GemmTile::new(1, 4, 4);

/// 16 filters by 64 pixels, for problems that have few pixels.
pub const M16N64: GemmTile = GemmTile::new(1, 2, 1);

/// All tiles.
pub const TILES: [GemmTile; 7] = [M64N128, M32N128, M16N256, M64N32, M16N64, W64N128, WIDE];

impl GemmTile {
    /// What kernels of the tile are labelled; nothing if it is none of [`TILES`].
    pub const fn name(self) -> Option<&'static str> {
        match self {
            M64N128 => Some("m64n128"),
            M32N128 => Some("m32n128"),
            M16N256 => Some("m16n256"),
            M64N32 => Some("m64n32"),
            M16N64 => Some("m16n64"),
            W64N128 => Some("w64n128"),
            WIDE => Some("wide"),
            _ => None,
        }
    }

    const fn new(operands: u32, pixel_octets: u32, filter_warps: u32) -> Self {
        Self {
            operands,
            pixel_octets,
            filter_warps,
            warpgroups: 0,
        }
    }

    /// Whether the filters, too, come to shared memory.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        self.warpgroups == 2
    }

    /// Moments that a tile leaves of each of its filters.
    #[must_use]
    pub const fn moments(self) -> u32 {
        if self.is_wide() { wide::HALVES } else { 1 }
    }

    /// Filters of a tile.
    #[must_use]
    pub const fn filters(self) -> u32 {
        self.operands * OPERAND_ROWS * self.filter_warps
    }

    /// Warps side by side along the pixels.
    #[must_use]
    pub const fn pixel_warps(self) -> u32 {
        WARPS / self.filter_warps
    }

    /// Pixels of a warp.
    #[must_use]
    pub const fn warp_pixels(self) -> u32 {
        self.pixel_octets * INSTRUCTION_PIXELS
    }

    /// Blocks that a multiprocessor should hold where values have `parts` parts: as many as their threads' registers
    /// allow.
    #[must_use]
    pub const fn blocks_per_processor(self, parts: u32) -> u32 {
        match (self.warpgroups, self.operands, self.pixel_octets) {
            (2, ..) => 1,
            (1, ..) => {
                if parts == 1 {
                    3
                } else {
                    2
                }
            }
            (_, 4, _) => 3,
            (_, 1, 8) if parts == 2 => 3,
            _ => 4,
        }
    }

    /// Pixels of a tile.
    #[must_use]
    pub const fn pixels(self) -> u32 {
        self.warp_pixels() * self.pixel_warps()
    }

    /// Whether long sums of split values are put aside now and then. The largest tile has no registers left for that;
    /// it makes no long sums of split values, therefore.
    #[must_use]
    pub const fn puts_aside(self) -> bool {
        self.warpgroups == 0 && self.operands < 4
    }

    /// Whether there are kernels of the tile that go through the reduction in several passes.
    pub(super) const fn makes_passes(self) -> bool {
        self.is_wide() || self.operands == M32N128.operands
    }

    /// Whether the tile adds up `steps` steps of split values well.
    pub(super) const fn allows_split(self, steps: u32) -> bool {
        self.warpgroups != 0 || self.puts_aside() || steps <= KEPT_STEPS
    }

    /// What an output takes of a multiprocessor for each step of the product, in ten-thousandths of a
    /// cycle. 2,048 additions of products a cycle and 16 in a step make 78 at best; the fewer
    /// outputs a warp has, the more operands it loads for each.
    pub(super) const fn step_cost(self) -> u64 {
        match (self.operands, self.pixel_octets) {
            _ if self.is_wide() => 45,
            _ if self.warpgroups != 0 => 95,
            (4, _) => 130,
            (2, _) => 150,
            (_, 8) => 170,
            _ => 300,
        }
    }
}

/// Chooses the extents of a tile's pixels: those with the least work for the whole plane, of which
/// the patches are a part. Where outputs are pooled, whole windows.
pub(super) fn choose_pixels(g: &mut GemmGeometry, tile: GemmTile) -> Option<()> {
    let (step_h, step_w) = (g.pool_h.max(1), g.pool_w.max(1));
    let most = tile.pixels();
    let mut best = u64::MAX;
    let mut chosen = None;
    let mut w = step_w;
    while w <= most.min(g.conv.q.next_multiple_of(step_w)) {
        let mut h = step_h;
        while h * w <= most && h <= g.conv.p.next_multiple_of(step_h) {
            for candidate in g.candidates(h, w, tile).into_iter().flatten() {
                let cost = candidate.cost(tile);
                if cost < best {
                    (best, chosen) = (cost, Some(candidate));
                }
            }
            h += step_h;
        }
        w += step_w;
    }
    *g = chosen?;
    Some(())
}

/// Weight of a cell of the patch against a pixel of the tile, in the cost of a tile.
const PATCH_WEIGHT: u64 = 1;
/// Weight of a pixel of the tile, used or not.
const PIXEL_WEIGHT: u64 = 4;

/// Weight of a row of a warpgroup's patch, in cells: its ends are parts of what memory transfers at once.
const ROW_WEIGHT: u64 = 4;

/// How far the windows of `outputs` neighbouring outputs reach along one axis.
pub(super) fn reach(outputs: u32, stride: u32, taps: u32, dilation: u32) -> Option<u32> {
    let last = (outputs - 1).checked_mul(stride)?;
    let window = (taps - 1).checked_mul(dilation)?;
    last.checked_add(window)?.checked_add(1)
}

impl GemmGeometry {
    /// The same with tiles of `h` rows and `w` columns, in every layout. As deep as it goes: a slice less
    /// is never better.
    fn candidates(&self, h: u32, w: u32, tile: GemmTile) -> [Option<Self>; 2] {
        let most = tile.pixels();
        if tile.warpgroups == 0 {
            let d = (most / (h * w)).clamp(1, self.conv.z);
            return [self.with_pixels([d, h, w]), None];
        }
        [
            self.with_pixels([1, h, w])
                .and_then(|one_slice| one_slice.flat(most)),
            self.with_pixels([1, h, w])
                .and_then(|one_slice| one_slice.eights(most)),
        ]
    }

    /// The flat layout of a tile with this one's rows and columns.
    fn flat(&self, most: u32) -> Option<Self> {
        let conv = &self.conv;
        if self.residues != 1 {
            return None;
        }
        let row = self.patch_row();
        let tile_pitch = conv.stride_h.checked_mul(row)?;
        let slice_pitch = conv.stride_d.checked_mul(self.patch_h)?.checked_mul(row)?;
        let of_slice = (self.tile_h - 1)
            .checked_mul(tile_pitch)?
            .checked_add(self.tile_w)?;
        let d = (most.checked_sub(of_slice)? / slice_pitch + 1).min(conv.z);
        let flat = Self {
            tile_pitch,
            slice_pitch,
            octet_cells: INSTRUCTION_PIXELS,
            ..self.with_pixels([d, self.tile_h, self.tile_w])?
        };
        flat.for_warpgroup(most)
    }

    /// The layout of rows of eight pixels.
    fn eights(&self, most: u32) -> Option<Self> {
        let fits = self.tile_w <= INSTRUCTION_PIXELS && self.tile_h * INSTRUCTION_PIXELS <= most;
        let eights = Self {
            tile_pitch: INSTRUCTION_PIXELS,
            slice_pitch: most,
            octet_cells: self.conv.stride_h.checked_mul(self.patch_row())?,
            ..*self
        };
        if fits {
            eights.for_warpgroup(most)
        } else {
            None
        }
    }

    /// How far neighbouring columns of taps are apart, if there is one plane and they are equally far apart; else 0.
    fn pair_cells(&self) -> Option<u32> {
        let columns = self.cell_columns.checked_mul(self.conv.dilation_w)?;
        let together = self.planes == 1 && self.column_taps > 1;
        let are_even = together && columns.is_multiple_of(self.conv.stride_w);
        Some(if are_even {
            columns / self.conv.stride_w
        } else {
            0
        })
    }

    /// The same, with steps of two planes, or of two columns of taps in the one that there is, and a patch that has a cell for each tap of every
    /// pixel of a block, used or not.
    fn for_warpgroup(self, most: u32) -> Option<Self> {
        let conv = &self.conv;
        let last_row =
            (conv.t - 1) * conv.dilation_d * self.patch_h + (conv.r - 1) * conv.dilation_h;
        // How far the last column of a filter is from its first, at most.
        let columns = match self.residues {
            1 => self.patch_columns - self.tile_w,
            _ => self.patch_row() - 1,
        };
        let taps = last_row
            .checked_mul(self.patch_row())?
            .checked_add(columns)?;
        let pixels = (most / INSTRUCTION_PIXELS - 1).checked_mul(self.octet_cells)?;
        let pair_cells = self.pair_cells()?;
        // The last pair of columns may have one, and reads another.
        let behind = pair_cells * (self.column_taps % STEP_CELLS);
        let reached = (pixels.checked_add(INSTRUCTION_PIXELS)?)
            .checked_add(taps)?
            .checked_add(behind)?;
        let paired = Self {
            pair_cells,
            patch_cells: reached.max(self.patch_cells),
            paired: 1,
            ..self
        };
        (paired.patch_cells <= MAX_PATCH_CELLS).then_some(paired)
    }

    /// The same with tiles of these extents, if indices and a patch are not too large.
    fn with_pixels(&self, [d, h, w]: [u32; 3]) -> Option<Self> {
        let conv = &self.conv;
        let [tiles_d, tiles_h, tiles_w] =
            [conv.z.div_ceil(d), conv.p.div_ceil(h), conv.q.div_ceil(w)];
        // The first column of the last tap, in columns of its residue.
        let last_tap = (self.column_taps - 1) * self.cell_columns;
        let last_tap = last_tap.checked_mul(conv.dilation_w)? / conv.stride_w;
        let candidate = Self {
            tile_d: d,
            tile_h: h,
            tile_w: w,
            tiles_d,
            tiles_h,
            tiles_w,
            patch_d: reach(d, conv.stride_d, conv.t, conv.dilation_d)?,
            patch_h: reach(h, conv.stride_h, conv.r, conv.dilation_h)?,
            patch_columns: w.checked_add(last_tap)?,
            packed_d: reach(tiles_d * d, conv.stride_d, conv.t, conv.dilation_d)?,
            packed_h: reach(tiles_h * h, conv.stride_h, conv.r, conv.dilation_h)?,
            residue_columns: (tiles_w * w).checked_add(last_tap)?,
            tile_pitch: w,
            slice_pitch: h * w,
            windows_h: h.checked_div(self.pool_h).unwrap_or(0),
            windows_w: w.checked_div(self.pool_w).unwrap_or(0),
            ..*self
        };
        let product = |extents: [u32; 4]| -> Option<u32> {
            extents
                .into_iter()
                .try_fold(1, |all: u32, extent| all.checked_mul(extent))
        };
        let c = &candidate;
        let patch = product([c.patch_d, c.patch_h, c.residues, c.patch_columns])?;
        let plane = product([c.packed_d, c.packed_h, c.residues, c.residue_columns])?;
        let fits = patch <= MAX_PATCH_CELLS && plane <= u32::MAX / CELL_WORDS;
        fits.then_some(Self {
            patch_cells: patch,
            ..candidate
        })
    }

    /// What all tiles of a plane cost, in units of no meaning.
    fn cost(&self, tile: GemmTile) -> u64 {
        let tiles = u64::from(self.tiles_d) * u64::from(self.tiles_h) * u64::from(self.tiles_w);
        let rows = u64::from(self.patch_d * self.patch_h);
        let cells = if tile.warpgroups == 0 {
            // A warp copies a row at a time.
            rows * u64::from(self.patch_row().next_multiple_of(WARP_THREADS))
        } else {
            rows * ROW_WEIGHT + u64::from(self.patch_cells)
        };
        let mut pixels = PIXEL_WEIGHT * u64::from(tile.pixels());
        if tile.warpgroups == 0 && !self.tile_w.is_multiple_of(INSTRUCTION_PIXELS) {
            // The eight rows of an operand lie in several rows of the patch, and meet in banks.
            pixels += pixels / 16;
        }
        tiles.saturating_mul(pixels + PATCH_WEIGHT * cells)
    }
}
