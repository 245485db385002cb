//! The pixels of a tile, and the layout of their halo tile.
//!
//! # Octets
//! A warpgroup multiplies octets of pixels at equal distances in the halo tile. In the layout of
//! *octets* a tile may be any box of rows, slices and *strips* (eight columns each) of the output, because
//! each octet has a row of the halo tile to itself: its eight pixels and the columns that the filter reaches
//! beyond. Rows follow one another like the octets: strips, then slices, then rows of the output. The rows
//! that the filter reaches beyond are further rows of all strips and slices. Rows that are a stride apart in
//! the input are neighbours in the halo tile, as columns are, so each stride phase is one more block of rows.
//! Slices lie between the rows, so each slice of the filter has a block of its own.
//!
//! ```text
//! halo tile[slice of the filter][row stride phase][row][slice][strip][column stride phase][column]
//! ```
//! Columns between two strips are stored twice, and input slices that several output slices read are stored
//! once for each slice of the filter. In return no pixel of the tile is wasted where the output's extents are
//! multiples of the box's, such as 16 by 16 or 8 by 8 by 8. A slice of the filter may also be a K block of
//! its own, since it reads nothing of the other slices' blocks.

use super::tile::{INSTRUCTION_PIXELS, MMA_BATCH_STEPS};
use super::{
    ASSUMED_BATCH, GemmDevice, GemmTile, ImplicitGemmGeometry, K_VECTOR_BYTES, K_VECTOR_WORDS,
    MAX_HALO_K_VECTORS, MMA_STEP_K_VECTORS, MmaOperands, OperandFormat, WARP_SPECIALIZED,
    WARP_THREADS,
};

/// Chooses the extents of a tile's pixels with the least work for the whole plane, halo tiles included. With
/// a pool, extents are whole windows. For warp-specialized tiles, the work is the time of the usual batch on
/// the device, in whole rounds, for values in `format`.
pub(super) fn choose_pixels(
    g: &mut ImplicitGemmGeometry,
    tile: GemmTile,
    format: OperandFormat,
    device: &GemmDevice,
) -> Option<()> {
    let (step_h, step_w) = (g.pool_h.max(1), g.pool_w.max(1));
    let max = tile.pixels();
    let mut best = u64::MAX;
    let mut chosen = None;
    let mut widest = g.conv.q.next_multiple_of(step_w);
    if tile.is_warp_specialized() {
        // With several strips, all are whole.
        widest = widest.next_multiple_of(INSTRUCTION_PIXELS);
    }
    let mut w = step_w;
    while w <= max.min(widest) {
        let mut h = step_h;
        while h * w <= max && h <= g.conv.p.next_multiple_of(step_h) {
            for candidate in g.candidates(h, w, tile).into_iter().flatten() {
                let cost = match tile.is_warp_specialized() {
                    true => candidate.warp_specialized_pixel_cost(format, device),
                    false => Some(candidate.pixel_cost(tile)),
                };
                if let Some(cost) = cost.filter(|&cost| cost < best) {
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

/// Weight of a K-vector of the halo tile against a pixel of the tile, in the cost of a tile.
const HALO_WEIGHT: u64 = 1;
/// Weight of a pixel of the tile, used or not.
const PIXEL_WEIGHT: u64 = 4;

/// Weight of a row of a warpgroup's halo tile, in K-vectors: memory transfers at the ends of a row are
/// partial.
const ROW_WEIGHT: u64 = 4;

/// The same for warp-specialized tiles, whose rows are short.
const WARP_SPECIALIZED_ROW_WEIGHT: u64 = 2;

/// Weight of a tap of one plane in a warp-specialized tile. Tensor cores take 64 cycles for it (half a step),
/// or 128 with two tiles of filters. K-vectors are loaded meanwhile, so they count little.
const WARP_SPECIALIZED_TAP_WEIGHT: u64 = 256;

/// Weight of a tile whose 16-bit results are contiguous for at most eight pixels: 16 bytes, half of a sector
/// of the level-2 cache, so that there are twice as many stores. With 64 filters the epilogue of such a tile
/// takes some 3,900 cycles longer on an H200 (128 channels of 512^2 in f16).
const HALF_SECTORS_WEIGHT: u64 = 15_000;

/// Cycles of a multiprocessor for a sector of memory that is written in part. Memory reads it first: on an
/// H100 64 to 128 channels of 126^2 took 2.48 ms in f32 where 128^2 took 0.76.
const PARTIAL_SECTOR_CYCLES: u64 = 12;

/// Units of the cost of a warp-specialized tile in a cycle.
const UNITS_PER_CYCLE: u64 = 4;

/// The most unused pixels between two rows of a run.
const MAX_UNUSED_PIXELS: u32 = 16;

/// Extent along one axis of the input that `outputs` neighbouring outputs touch.
pub(super) fn reach(outputs: u32, stride: u32, taps: u32, dilation: u32) -> Option<u32> {
    let last = (outputs - 1).checked_mul(stride)?;
    let window = (taps - 1).checked_mul(dilation)?;
    last.checked_add(window)?.checked_add(1)
}

fn product<const N: usize>(extents: [u32; N]) -> Option<u32> {
    extents
        .into_iter()
        .try_fold(1, |all: u32, extent| all.checked_mul(extent))
}

impl ImplicitGemmGeometry {
    /// Geometries with tiles of `h` rows and `w` columns, in both layouts. Tiles are as deep as possible:
    /// fewer slices are never better.
    fn candidates(&self, h: u32, w: u32, tile: GemmTile) -> [Option<Self>; 2] {
        let max = tile.pixels();
        if !tile.mainloop.is_warpgroup_mma() {
            let d = (max / (h * w)).clamp(1, self.conv.z);
            return [self.with_pixels([d, h, w]), None];
        }
        [self.flat(h, w, max), self.octets(h, w, tile)]
    }

    /// The flat layout of a tile with these rows and columns.
    fn flat(&self, h: u32, w: u32, max: u32) -> Option<Self> {
        let one_slice = self.with_pixels([1, h, w])?;
        let conv = &self.conv;
        if self.stride_phases != 1 {
            return None;
        }
        let row = one_slice.halo_row();
        let tile_pitch = conv.stride_h.checked_mul(row)?;
        let slice_pitch = product([conv.stride_d, one_slice.halo_h, row])?;
        let of_slice = (h - 1).checked_mul(tile_pitch)?.checked_add(w)?;
        let d = (max.checked_sub(of_slice)? / slice_pitch + 1).min(conv.z);
        let flat = Self {
            tile_pitch,
            slice_pitch,
            octet_k_vectors: INSTRUCTION_PIXELS,
            ..self.with_pixels([d, h, w])?
        };
        if self.epilogue.is_reduced()
            || self.epilogue.is_shuffled_to_vectors() && !flat.has_rows_of_vectors()
        {
            return None;
        }
        let last_row =
            (conv.t - 1) * conv.dilation_d * flat.halo_h + (conv.r - 1) * conv.dilation_h;
        flat.for_warpgroup(max, last_row)
    }

    /// The layout of octets of a tile with these rows and columns.
    fn octets(&self, h: u32, w: u32, tile: GemmTile) -> Option<Self> {
        let conv = &self.conv;
        let max = tile.pixels() / INSTRUCTION_PIXELS;
        let strips = w.div_ceil(INSTRUCTION_PIXELS);
        // Several strips are whole.
        let are_whole = strips == 1 || w.is_multiple_of(INSTRUCTION_PIXELS);
        if !are_whole || strips * h > max || !tile.is_warp_specialized() && strips > 1 {
            return None;
        }
        let mut d = 1;
        if tile.is_warp_specialized() {
            // No deeper than needed for the same number of tiles.
            let deepest = (max / (strips * h)).min(conv.z);
            d = match self.epilogue.is_reduced() {
                true => self.slices_of_windows(strips, deepest)?,
                false => conv.z.div_ceil(conv.z.div_ceil(deepest)),
            };
        }
        let extents = self.with_extents([d, h, w])?;
        let strip_columns = extents.halo_columns - w + w.min(INSTRUCTION_PIXELS);
        // Rows that the filter reaches beyond the first, counted a stride apart.
        let reached = (conv.r - 1).checked_mul(conv.dilation_h)?;
        let octets = Self {
            tile_pitch: d * strips * INSTRUCTION_PIXELS,
            slice_pitch: strips * INSTRUCTION_PIXELS,
            strips,
            halo_columns: strip_columns,
            octet_k_vectors: product([self.stride_phases, strip_columns])?,
            row_stride_phases: conv.stride_h.min(reached.checked_add(1)?),
            stride_phase_rows: h.checked_add(reached / conv.stride_h)?,
            ..extents
        };
        if self.epilogue.is_reduced() && !octets.has_whole_windows() {
            return None;
        }
        let all = |depth_k_blocks: u32| {
            let octets = Self {
                depth_k_blocks,
                filter_slices: conv.t / depth_k_blocks,
                taps: self.taps / depth_k_blocks,
                ..octets
            };
            let slices = octets.filter_slices;
            let rows = product([slices, octets.row_stride_phases, octets.stride_phase_rows])?;
            let octets = Self {
                halo_k_vectors: product([rows, d, strips, octets.octet_k_vectors])?,
                ..octets
            };
            octets.for_warpgroup(tile.pixels(), rows - h)
        };
        // Each filter slice is a K block, if its taps leave at most an eighth of their MMA batches empty.
        let taps = self.taps / conv.t;
        match 8 * taps.next_multiple_of(MMA_BATCH_STEPS) <= 9 * taps {
            true if tile.is_warp_specialized() => all(conv.t),
            _ => all(1),
        }
    }

    /// Returns the distance of neighbouring columns of taps, if there is one plane and all distances are
    /// equal; 0 otherwise.
    fn pair_k_vectors(&self) -> Option<u32> {
        let columns = self.k_vector_columns.checked_mul(self.conv.dilation_w)?;
        let together = self.planes == 1 && self.column_taps > 1;
        let are_even = together && columns.is_multiple_of(self.conv.stride_w);
        Some(if are_even {
            columns / self.conv.stride_w
        } else {
            0
        })
    }

    /// The geometry for `wgmma`: steps take two planes, or two columns of taps of a single plane, and the
    /// halo tile has a K-vector for each tap of every pixel of a block, used or not. The filter's last row is
    /// `last_row` rows behind its first.
    fn for_warpgroup(self, max: u32, last_row: u32) -> Option<Self> {
        // Distance of a column of the filter from its first.
        let column = |tap: u32| {
            let w = tap * self.k_vector_columns * self.conv.dilation_w;
            let (column, stride_phase) = (w / self.conv.stride_w, w % self.conv.stride_w);
            stride_phase * self.halo_columns + column
        };
        let columns = (0..self.column_taps).map(column).max().unwrap_or(0);
        // The octets of one row of the output.
        let octets_in_row = match self.strips {
            0 => 1,
            _ => self.tile_d * self.strips,
        };
        let taps = product([last_row, octets_in_row, self.halo_row()])?.checked_add(columns)?;
        let pixels = (max / INSTRUCTION_PIXELS - 1).checked_mul(self.octet_k_vectors)?;
        let pair_k_vectors = self.pair_k_vectors()?;
        let reached = (pixels.checked_add(INSTRUCTION_PIXELS)?).checked_add(taps)?;
        let paired = Self {
            pair_k_vectors,
            halo_k_vectors: reached.max(self.halo_k_vectors),
            operands: MmaOperands::DESCRIPTOR,
            ..self
        };
        (paired.halo_k_vectors <= MAX_HALO_K_VECTORS).then_some(paired)
    }

    /// The geometry with tiles of these extents, if indices and the halo tile are not too large.
    fn with_pixels(&self, extents: [u32; 3]) -> Option<Self> {
        let candidate = self.with_extents(extents)?;
        let c = &candidate;
        let halo = product([c.halo_d, c.halo_h, c.stride_phases, c.halo_columns])?;
        (halo <= MAX_HALO_K_VECTORS).then_some(Self {
            halo_k_vectors: halo,
            ..candidate
        })
    }

    /// The geometry with tiles of these extents, without the halo tile, if indices are not too large.
    fn with_extents(&self, [d, h, w]: [u32; 3]) -> Option<Self> {
        let conv = &self.conv;
        let [tiles_d, tiles_h, tiles_w] =
            [conv.z.div_ceil(d), conv.p.div_ceil(h), conv.q.div_ceil(w)];
        // The first column of the last tap, in columns of its stride phase.
        let last_tap = (self.column_taps - 1) * self.k_vector_columns;
        let last_tap = last_tap.checked_mul(conv.dilation_w)? / conv.stride_w;
        let candidate = Self {
            tile_d: d,
            tile_h: h,
            tile_w: w,
            tiles_d,
            tiles_h,
            tiles_w,
            halo_d: reach(d, conv.stride_d, conv.t, conv.dilation_d)?,
            halo_h: reach(h, conv.stride_h, conv.r, conv.dilation_h)?,
            halo_columns: w.checked_add(last_tap)?,
            reformatted_d: reach(tiles_d * d, conv.stride_d, conv.t, conv.dilation_d)?,
            reformatted_h: reach(tiles_h * h, conv.stride_h, conv.r, conv.dilation_h)?,
            stride_phase_columns: (tiles_w * w).checked_add(last_tap)?,
            tile_pitch: w,
            slice_pitch: h * w,
            windows_h: h.checked_div(self.pool_h).unwrap_or(0),
            windows_w: w.checked_div(self.pool_w).unwrap_or(0),
            ..*self
        };
        let c = &candidate;
        let plane = product([
            c.reformatted_d,
            c.reformatted_h,
            c.stride_phases,
            c.stride_phase_columns,
        ])?;
        (plane <= u32::MAX / K_VECTOR_WORDS).then_some(candidate)
    }

    /// Alignment of a tile's pixels in the output: if a power of two divides it, each aligned run of that
    /// many pixels is contiguous in the output.
    #[must_use]
    #[inline(always)]
    pub const fn neighbours(&self) -> u32 {
        self.conv.q | self.tile_w | self.tile_pitch | self.slice_pitch
    }

    /// Whether the pixels of a tile are a run: consecutive elements of the output, with so few unused pixels
    /// between rows that 64 pixels have more than a sector of results.
    pub(super) const fn is_run(&self) -> bool {
        let are_rows = self.tile_w >= self.conv.q
            && self.tile_pitch <= 2 * self.conv.q
            && self.tile_pitch <= self.conv.q + MAX_UNUSED_PIXELS;
        self.tile_d == 1 && (self.tile_h == 1 || are_rows)
    }

    /// Returns the additional cycles of a tile for sectors that are written in part. Each filter has them at
    /// both ends of the run, or of each row that does not begin on a vector.
    pub(super) fn partial_sector_cycles(&self, tile: GemmTile, format: OperandFormat) -> u64 {
        let vector = K_VECTOR_BYTES / format.value_bytes();
        let is_aligned = self.neighbours().is_multiple_of(vector);
        let sectors = match (tile.is_warp_specialized(), self.is_run()) {
            _ if self.epilogue.is_nhwc() || self.epilogue.is_shuffled_to_vectors() => 0,
            _ if self.epilogue.is_shuffled() => 2 * self.tile_d * self.tile_h,
            _ if self.pool_h > 0 || is_aligned => 0,
            // Whole rows of vectors.
            (true, true) if self.tile_w >= self.conv.q && self.conv.q.is_multiple_of(vector) => 0,
            (true, true) => 2,
            (true, false) => 2 * self.tile_d * self.tile_h,
            // A warp writes 32 values together.
            (false, _) => 2 * self.tile_d * self.tile_h * self.tile_w.div_ceil(WARP_THREADS),
        };
        u64::from(tile.filters() * sectors) * PARTIAL_SECTOR_CYCLES
    }

    /// Cost of all tiles of a plane, in arbitrary units, for tiles that are not warp-specialized.
    fn pixel_cost(&self, tile: GemmTile) -> u64 {
        let rows = u64::from(self.halo_rows());
        let k_vectors = if !tile.mainloop.is_warpgroup_mma() {
            // A warp copies a row at a time.
            rows * u64::from(self.halo_row().next_multiple_of(WARP_THREADS))
        } else {
            rows * ROW_WEIGHT + u64::from(self.halo_k_vectors)
        };
        let mut pixels = PIXEL_WEIGHT * u64::from(tile.pixels());
        if !tile.mainloop.is_warpgroup_mma() && !self.tile_w.is_multiple_of(INSTRUCTION_PIXELS) {
            // The eight rows of an operand lie in several rows of the halo tile, with bank conflicts.
            pixels += pixels / 16;
        }
        u64::from(self.pixel_tiles()).saturating_mul(pixels + HALO_WEIGHT * k_vectors)
    }

    /// Returns the cost of all tiles of a plane for warp-specialized tiles, if shared memory has room for two
    /// stages of each pipeline. Half of the cost is the time of the usual batch, in whole rounds; the other
    /// half is proportional to the tiles, for other batches. If the usual batch does not fill a round, both
    /// halves are proportional to the tiles.
    fn warp_specialized_pixel_cost(
        &self,
        format: OperandFormat,
        device: &GemmDevice,
    ) -> Option<u64> {
        let one_k_block = Self {
            k_block_planes: if self.pair_k_vectors > 0 {
                1
            } else {
                MMA_STEP_K_VECTORS
            },
            ..*self
        };
        let mma_steps = format.passes * one_k_block.paired_mma_steps();
        let least = Self {
            offsets: mma_steps.next_multiple_of(MMA_BATCH_STEPS),
            ..one_k_block
        };
        least.mainloop_config(format, [1, 1], device.shared_bytes)?;
        // `tile` is the cost for each plane. The costs behind it are for all planes.
        let planes = u64::from(self.planes.max(1));
        let mut tile = match self.write_bound_cycles(format) {
            Some(cycles) => UNITS_PER_CYCLE * cycles / planes,
            None => {
                let taps = u64::from(self.taps) * WARP_SPECIALIZED_TAP_WEIGHT;
                let k_vectors = HALO_WEIGHT * u64::from(self.halo_k_vectors);
                let rows = WARP_SPECIALIZED_ROW_WEIGHT * u64::from(self.halo_rows());
                u64::from(self.depth_k_blocks) * (taps + k_vectors + rows)
            }
        };
        let pixels = match self.epilogue.is_shuffled() {
            true => INSTRUCTION_PIXELS,
            false => 2 * INSTRUCTION_PIXELS,
        };
        if format.is_stored()
            && !self.epilogue.is_reduced()
            && !self.neighbours().is_multiple_of(pixels)
        {
            tile += HALF_SECTORS_WEIGHT / planes;
        }
        tile += UNITS_PER_CYCLE * self.partial_sector_cycles(WARP_SPECIALIZED, format) / planes;
        let work_tiles = ASSUMED_BATCH.checked_mul(self.pixel_tiles().into())?;
        let tiles = work_tiles.checked_mul(self.filter_sets().into())?;
        let multiprocessors = u64::from(device.multiprocessors);
        let of_tiles = tiles.checked_mul(100)?;
        let mut of_rounds = of_tiles;
        if tiles > multiprocessors {
            let rounds = self.warp_specialized_rounds(format, 1, device, work_tiles)?;
            of_rounds = rounds.into_iter().min()?.checked_mul(multiprocessors)?;
        }
        of_rounds.checked_add(of_tiles)?.checked_mul(tile)
    }
}
