//! Tables in shared memory that map taps, pixels and windows to K-vectors.

use cuda_std::shared::{self, Shared};
use cuda_std::{opaque, thread};
use launch_config::implicit_gemm::{
    BLOCK_THREADS, GemmTile, ImplicitGemmGeometry, K_VECTOR_BYTES, Layout, OUTSIDE, PLACE_BITS,
};

use super::format::{Format, INPUT_PARTS, part_of_pass};
use super::tile::TileShape;
use crate::parts::index::div_rem;

/// Pixels of an octet.
pub(super) const OCTET_PIXELS: u32 = 8;

/// Returns the strips of octets of a tile: a compile-time 0 for `mma.sync`.
#[inline(always)]
fn strips(g: &ImplicitGemmGeometry, tile: GemmTile) -> u32 {
    if tile.mainloop.is_warpgroup_mma() {
        g.strips
    } else {
        0
    }
}

/// Returns the neighbouring outputs in depth of a tile: a compile-time 1 if the tile is not warp-specialized.
#[inline(always)]
fn outputs_d(g: &ImplicitGemmGeometry, tile: GemmTile) -> u32 {
    if tile.is_warp_specialized() {
        g.outputs_d
    } else {
        1
    }
}

/// Returns the binary logarithm of the K-vectors of a span of the halo tile. It is 0 for planes, at compile
/// time for tiles and formats that never have an NHWC halo tile.
#[inline(always)]
pub(super) fn span_shift<F: Format>(g: &ImplicitGemmGeometry, tile: GemmTile) -> u32 {
    if may_have_nhwc_tile::<F>(tile) {
        g.span_shift()
    } else {
        0
    }
}

/// Whether a halo tile may be NHWC. Formats with several parts never have one.
#[inline(always)]
pub(super) const fn may_have_nhwc_tile<F: Format>(tile: GemmTile) -> bool {
    tile.is_warp_specialized() && F::OPERANDS.parts == 1 && !F::READS_DENSE
}

/// Whether the producer may convert the input, which only the scaled single-part format does.
#[inline(always)]
pub(super) const fn may_convert_in_producer<F: Format>() -> bool {
    F::OPERANDS.parts == 1 && F::OPERANDS.scaled
}

/// Whether the producer converts the input. Evaluated at each call: keeping the condition would take a
/// register.
#[inline(always)]
pub(super) fn converts<F: Format>(g: &ImplicitGemmGeometry) -> bool {
    F::READS_DENSE
        || may_convert_in_producer::<F>() && opaque::to_compiler(g.staged_tiles.staged_bytes) != 0
}

/// Whether the halo tile is NHWC.
#[inline(always)]
pub(super) fn has_nhwc_tile<F: Format>(g: &ImplicitGemmGeometry, tile: GemmTile) -> bool {
    may_have_nhwc_tile::<F>(tile) && g.has_nhwc_tile()
}

/// Returns the first plane of a K block, and its filter slice if slices are K blocks.
#[inline(always)]
pub(super) unsafe fn k_block_place(g: &ImplicitGemmGeometry, k_block: u32) -> (u32, u32) {
    // A slice has one or two consecutive K blocks before those of the next slice.
    let shift = u32::from(g.slice_planes > g.k_block_planes);
    let (group, of_group) = div_rem(k_block, g.depth_k_blocks << shift);
    let plane = group * g.slice_planes + (of_group & shift) * g.k_block_planes;
    (plane, of_group >> shift)
}

/// Packs three coordinates in a tile into one word. The bit above each is 0.
#[inline(always)]
pub(super) fn to_word(a: u32, b: u32, c: u32) -> u32 {
    c | b << PLACE_BITS | a << (2 * PLACE_BITS)
}

/// Unpacks the coordinates that [`to_word`] packed.
#[inline(always)]
pub(super) fn from_word(word: u32) -> [u32; 3] {
    const MASK: u32 = (1 << PLACE_BITS) - 1;
    [
        word >> (2 * PLACE_BITS),
        word >> PLACE_BITS & MASK,
        word & MASK,
    ]
}

/// The tables, as the fields of [`Layout`] describe them.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) offsets: Shared<u32>,
    pub(super) bases: Shared<u32>,
    pub(super) pixels: Shared<u32>,
    pub(super) positions: Shared<u32>,
    pub(super) sources: Shared<u32>,
    pub(super) windows: Shared<u32>,
    pub(super) g: &'a ImplicitGemmGeometry,
}

impl<'a> Tables<'a> {
    /// The tables of a block.
    #[inline(always)]
    pub(super) unsafe fn of<S: TileShape>(layout: &Layout, g: &'a ImplicitGemmGeometry) -> Self {
        Self {
            offsets: shared::dynamic(layout.offsets, g.offsets),
            bases: shared::dynamic(layout.bases, S::TILE.pixels()),
            pixels: shared::dynamic(layout.pixels, S::TILE.pixels()),
            positions: shared::dynamic(layout.positions, S::TILE.pixels()),
            sources: shared::dynamic(layout.sources, g.halo_k_vectors),
            windows: shared::dynamic(layout.windows, g.windows()),
            g,
        }
    }

    /// Fills in the offsets of a halo tile's K-vectors in the reformatted input, relative to the first
    /// K-vector.
    #[inline(always)]
    pub(super) unsafe fn find_sources<S: TileShape>(&self) {
        let g = self.g;
        let mut k_vector = thread::thread_idx_x();
        while k_vector < g.halo_k_vectors {
            self.sources.store(k_vector, source(g, S::TILE, k_vector));
            k_vector += BLOCK_THREADS;
        }
    }

    /// Fills in the other tables.
    #[inline(always)]
    pub(super) unsafe fn find_coords<F: Format, S: TileShape>(&self) {
        let g = self.g;
        let mut entry = thread::thread_idx_x();
        while entry < g.offsets {
            self.offsets.store(entry, offset::<F>(g, S::TILE, entry));
            entry += BLOCK_THREADS;
        }
        let mut pixel = thread::thread_idx_x();
        while pixel < S::TILE.pixels() {
            let place = PixelCoord::of(g, S::TILE, pixel);
            self.bases.store(pixel, place.base);
            self.pixels.store(pixel, place.coordinates);
            self.positions.store(pixel, place.position);
            pixel += BLOCK_THREADS;
        }
        let mut window = thread::thread_idx_x();
        if g.pool_h > 0 {
            while window < g.windows() {
                let (row, column) = div_rem(window, g.windows_w);
                let first = row * g.pool_h * g.tile_pitch + column * g.pool_w;
                self.windows.store(window, to_word(first, row, column));
                window += BLOCK_THREADS;
            }
        }
    }
}

/// Returns the offset of a halo tile's K-vector in the reformatted input, relative to the first K-vector.
#[inline(always)]
pub(super) unsafe fn source(g: &ImplicitGemmGeometry, tile: GemmTile, k_vector: u32) -> u32 {
    let KVectorPlace {
        d,
        h,
        stride_phase,
        column,
    } = KVectorPlace::of(g, tile, k_vector);
    (d * g.reformatted_h + h) * g.row_k_vectors() + stride_phase * g.stride_phase_columns + column
}

/// Coordinates of a halo tile's K-vector relative to the first one.
struct KVectorPlace {
    d: u32,
    h: u32,
    /// The stride phase, and the column within it.
    stride_phase: u32,
    column: u32,
}

impl KVectorPlace {
    #[inline(always)]
    unsafe fn of(g: &ImplicitGemmGeometry, tile: GemmTile, k_vector: u32) -> Self {
        // Unused pixels may read any K-vector.
        let from = k_vector.min(g.reformatted_halo_k_vectors() - 1);
        let (row, at) = div_rem(from, g.halo_row());
        let (stride_phase, column) = div_rem(at, g.halo_columns);
        let (d, h, strip) = if strips(g, tile) == 0 {
            let (d, h) = div_rem(row, g.halo_h);
            (d, h, 0)
        } else {
            row_of_octet(g, tile, row)
        };
        let column = column + strip * OCTET_PIXELS;
        Self {
            d,
            h,
            stride_phase,
            column,
        }
    }
}

/// Returns depth, row and strip of a row of a halo tile of octets.
#[inline(always)]
unsafe fn row_of_octet(g: &ImplicitGemmGeometry, tile: GemmTile, row: u32) -> (u32, u32, u32) {
    let conv = &g.conv;
    let (row, strip) = div_rem(row, g.strips);
    let (row, slice) = div_rem(row, g.tile_d);
    let (row, stride_phase_row) = div_rem(row, g.stride_phase_rows);
    let (t, stride_phase) = div_rem(row, g.row_stride_phases);
    // All stride phases have the same number of rows; the last row of some is never read.
    let h = (stride_phase_row * conv.stride_h + stride_phase).min(g.halo_h - 1);
    let d = slice * conv.stride_d * outputs_d(g, tile) + t * conv.dilation_d;
    (d, h, strip)
}

/// Returns entry `entry` of the table of offsets, relative to the base of a pixel. With matrix descriptors,
/// it is the offset of a step's first K-vector, in K-vectors. Otherwise it is the offset of a K-vector of the
/// K block, in bytes.
#[inline(always)]
pub(super) unsafe fn offset<F: Format>(
    g: &ImplicitGemmGeometry,
    tile: GemmTile,
    entry: u32,
) -> u32 {
    let conv = &g.conv;
    let k_vectors = if g.operands.is_descriptor() {
        g.paired_mma_steps()
    } else {
        g.k_block_k_vectors()
    };
    let format = F::OPERANDS;
    // Entries behind the last K-vector meet filters of 0, so any K-vector will do.
    let entry = if entry < format.passes * k_vectors {
        entry
    } else {
        0
    };
    let (pass, entry) = if format.passes > 1 {
        div_rem(entry, k_vectors)
    } else {
        (0, entry)
    };
    let (plane, tap) = if g.pair_k_vectors > 0 {
        let (row, pair) = div_rem(entry, g.row_pairs());
        (0, row * g.column_taps + g.first_of_pair(pair))
    } else {
        div_rem(entry, g.taps)
    };
    let (row, column) = div_rem(tap, g.column_taps);
    let (t, r) = div_rem(row, conv.r);
    let w = column * g.k_vector_columns * conv.dilation_w;
    let (column, stride_phase) = div_rem(w, conv.stride_w);
    let mut in_halo = if strips(g, tile) == 0 {
        let row = t * conv.dilation_d * g.halo_h + r * conv.dilation_h;
        row * g.halo_row() + stride_phase * g.halo_columns + column
    } else {
        let (row, row_stride_phase) = div_rem(r * conv.dilation_h, conv.stride_h);
        let of_stride_phase = t * g.row_stride_phases + row_stride_phase;
        if has_nhwc_tile::<F>(g, tile) {
            let [rows, slices] = g.box_rows();
            let first_box =
                of_stride_phase * rows * slices * g.strips * g.stride_phases + stride_phase;
            first_box * g.box_pixels() + row * g.row_pixels() + column
        } else {
            let row = (of_stride_phase * g.stride_phase_rows + row) * g.tile_d * g.strips;
            row * g.halo_row() + stride_phase * g.halo_columns + column
        }
    };
    if format.passes > 1 {
        in_halo += part_of_pass(INPUT_PARTS, pass) * g.halo_k_vectors;
    }
    let of_plane = format.parts * g.halo_k_vectors;
    if g.operands.is_descriptor() {
        // A step takes a pair of planes, which are side by side in a span.
        let shift = span_shift::<F>(g, tile);
        let of_line = (2 * plane) & ((1 << shift) - 1);
        (2 * plane - of_line) * of_plane + (in_halo << shift) + of_line
    } else {
        (plane * of_plane + in_halo) * K_VECTOR_BYTES
    }
}

/// The positions of a pixel of a tile.
pub(super) struct PixelCoord {
    /// The byte offset of the pixel's first K-vector in the halo tile.
    base: u32,
    /// The packed coordinates in the tile.
    pub(super) coordinates: u32,
    /// The offset in the output plane from the tile's first pixel. It is `u32::MAX` if the pixel is unused or
    /// beside the output.
    pub(super) position: u32,
}

impl PixelCoord {
    #[inline(always)]
    pub(super) unsafe fn of(g: &ImplicitGemmGeometry, tile: GemmTile, pixel: u32) -> Self {
        let conv = &g.conv;
        let (d, h, w) = if strips(g, tile) == 0 {
            let (d, in_slice) = div_rem(pixel, g.slice_pitch);
            let (h, w) = div_rem(in_slice, g.tile_pitch);
            (d, h, w)
        } else {
            // A row holds its pixels of all slices, slice after slice.
            let (h, in_row) = div_rem(pixel, g.tile_pitch);
            let (d, w) = div_rem(in_row, g.slice_pitch);
            (d, h, w)
        };
        let used = d < g.tile_d && h < g.tile_h && w < g.tile_w;
        let row = d * conv.stride_d * g.halo_h + h * conv.stride_h;
        let base = (row * g.halo_row() + w) * K_VECTOR_BYTES;
        Self {
            base: if used { base } else { 0 },
            coordinates: if used { to_word(d, h, w) } else { OUTSIDE },
            position: if used && w < conv.q {
                (d * outputs_d(g, tile) * conv.p + h) * conv.q + w
            } else {
                u32::MAX
            },
        }
    }
}
