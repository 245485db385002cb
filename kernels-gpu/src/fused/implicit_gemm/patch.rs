//! The part of the image that a tile's pixels touch, and the tables by which it is found.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{cp_async, thread};
use op_spec::launch::implicit_gemm::{
    BLOCK_THREADS, GemmGeometry, OUTSIDE, PLACE_BITS, TILE_WORDS, VECTOR_BYTES, VECTOR_WORDS,
};

use super::format::Format;
use super::product::Shape;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// Pixels that a block computes: a tile of one sample.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) sample: u32,
    /// The number of the tile.
    pub(super) tile: u32,
    /// Depth, row and column of its first pixel.
    pub(super) z: u32,
    pub(super) p: u32,
    pub(super) q: u32,
}

impl Place {
    /// Tile `item` of all samples.
    #[inline(always)]
    pub(super) unsafe fn of(item: u32, g: &GemmGeometry) -> Self {
        let (sample, tile) = div_rem(item, g.pixel_tiles());
        let (row, tile_w) = div_rem(tile, g.tiles_w);
        let (tile_d, tile_h) = div_rem(row, g.tiles_h);
        Self {
            sample,
            tile,
            z: tile_d * g.tile_d,
            p: tile_h * g.tile_h,
            q: tile_w * g.tile_w,
        }
    }

    /// Notes it in entry `entry` of the table of tiles, whose filters stay.
    #[inline(always)]
    pub(super) unsafe fn store(&self, tiles: Shared<u32>, entry: u32) {
        let at = entry * TILE_WORDS;
        tiles.store_vec(at, [self.sample, self.tile, self.z, self.p]);
        tiles.store(at + 4, self.q);
    }
}

/// The filters of a block: those that exist of a tile of them.
#[derive(Clone, Copy)]
pub(super) struct FilterSet {
    /// The output channel of the first one. Those of the others follow.
    pub(super) first_channel: u32,
    pub(super) count: u32,
}

impl FilterSet {
    /// Tile `tile` of the filters of group `group`.
    #[inline(always)]
    pub(super) fn of<S: Shape>(group: u32, tile: u32, g: &GemmGeometry) -> Self {
        let first = tile * S::TILE.filters();
        Self {
            first_channel: group * g.conv.group_k + first,
            count: (g.conv.group_k - first).min(S::TILE.filters()),
        }
    }

    /// Notes them in both entries of the table of tiles.
    #[inline(always)]
    pub(super) unsafe fn store(&self, tiles: Shared<u32>) {
        unroll!(2, |entry| {
            let at = entry as u32 * TILE_WORDS;
            tiles.store_vec(at + 6, [self.first_channel, self.count]);
        });
    }
}

/// An entry of the table of tiles, by which a block finds out what it computes. It is the same for all threads and
/// not needed while they multiply, so it takes no registers then.
pub(super) unsafe fn load_tile(tiles: Shared<u32>, entry: u32) -> (Place, FilterSet) {
    let at = entry * TILE_WORDS;
    let [sample, tile, z, p] = tiles.load_vec::<4>(at);
    let [first_channel, count] = tiles.load_vec::<2>(at + 6);
    let place = Place {
        sample,
        tile,
        z,
        p,
        q: tiles.load(at + 4),
    };
    (
        place,
        FilterSet {
            first_channel,
            count,
        },
    )
}

/// Three coordinates in a tile, in one word. Above each is a bit that is 0.
#[inline(always)]
pub(super) fn packed(a: u32, b: u32, c: u32) -> u32 {
    c | b << PLACE_BITS | a << (2 * PLACE_BITS)
}

/// What [`packed`] took.
#[inline(always)]
pub(super) fn unpacked(word: u32) -> [u32; 3] {
    const MASK: u32 = (1 << PLACE_BITS) - 1;
    [
        word >> (2 * PLACE_BITS),
        word >> PLACE_BITS & MASK,
        word & MASK,
    ]
}

/// The tables and the patch in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Patch<'a> {
    pub(super) offsets: Shared<u32>,
    pub(super) bases: Shared<u32>,
    pub(super) pixels: Shared<u32>,
    pub(super) positions: Shared<u32>,
    pub(super) sources: Shared<u32>,
    pub(super) windows: Shared<u32>,
    /// Both buffers.
    pub(super) buffers: Shared<u32>,
    /// The vectors of all samples and groups.
    pub(super) image: Global<u32>,
    pub(super) group: u32,
    pub(super) g: &'a GemmGeometry,
}

impl Patch<'_> {
    /// Notes where in the image the vectors of a patch are, from its first.
    #[inline(always)]
    pub(super) unsafe fn find_sources(&self) {
        let g = self.g;
        let mut vector = thread::thread_idx_x();
        while vector < g.patch_vectors {
            // Any will do for pixels that are not used.
            let from = vector.min(g.image_patch_vectors() - 1);
            let (row, at) = div_rem(from, g.patch_row());
            let (d, h) = div_rem(row, g.patch_h);
            let (residue, column) = div_rem(at, g.patch_columns);
            let source =
                (d * g.image_h + h) * g.row_vectors() + residue * g.residue_columns + column;
            self.sources.store(vector, source);
            vector += BLOCK_THREADS;
        }
    }

    /// Starts to copy the patch of a stage into a buffer.
    #[inline(always)]
    pub(super) unsafe fn start<F: Format>(&self, place: &Place, stage: u32, buffer: u32) {
        let (g, conv) = (self.g, &self.g.conv);
        let parts = F::OPERANDS.parts;
        let plane_vectors = g.plane_vectors() as usize;
        let first = (place.z * conv.stride_d * g.image_h + place.p * conv.stride_h)
            * g.row_vectors()
            + place.q;
        let of_group = place.sample as usize * conv.groups as usize + self.group as usize;
        let chunk = stage * g.stage_chunks;
        let plane = (of_group * g.chunks as usize + chunk as usize) * parts as usize;
        let from = plane * plane_vectors + first as usize;
        let buffer = buffer * (g.stage_bytes(parts) / 4);
        // Filters of channels that do not exist are 0, whatever they meet: the last ones again.
        let chunks = g.stage_chunks.min(g.chunks - chunk);
        let mut vector = thread::thread_idx_x();
        while vector < g.patch_vectors {
            let mut source = (from + self.sources.load(vector) as usize) * VECTOR_WORDS as usize;
            let mut target = buffer + vector * VECTOR_WORDS;
            let mut local = 0;
            while local < g.stage_chunks {
                unroll!(2, |part| {
                    if (part as u32) < parts {
                        let at = source + part * plane_vectors * VECTOR_WORDS as usize;
                        cp_async::copy16(self.buffers.addr(target), self.image, at);
                        target += g.patch_vectors * VECTOR_WORDS;
                    }
                });
                local += 1;
                if local < chunks {
                    source += parts as usize * plane_vectors * VECTOR_WORDS as usize;
                }
            }
            vector += BLOCK_THREADS;
        }
    }

    /// How far the vector that entry `entry` of the table stands for is from a pixel's first: a vector of the
    /// stage, in bytes, or the first vector of a step, in vectors.
    #[inline(always)]
    unsafe fn offset<F: Format>(&self, entry: u32) -> u32 {
        let (g, conv) = (self.g, &self.g.conv);
        let vectors = if g.paired != 0 {
            g.stage_chunks / 2 * g.taps
        } else {
            g.stage_vectors()
        };
        // What is behind the last one meets filters of 0; any vector will do for it.
        let (chunk, tap) = div_rem(if entry < vectors { entry } else { 0 }, g.taps);
        let (row, column) = div_rem(tap, g.column_taps);
        let (t, r) = div_rem(row, conv.r);
        let w = column * g.vector_columns * conv.dilation_w;
        let (column, residue) = div_rem(w, conv.stride_w);
        let row = t * conv.dilation_d * g.patch_h + r * conv.dilation_h;
        let in_patch = row * g.patch_row() + residue * g.patch_columns + column;
        let of_chunk = F::OPERANDS.parts * g.patch_vectors;
        if g.paired != 0 {
            2 * chunk * of_chunk + in_patch
        } else {
            (chunk * of_chunk + in_patch) * VECTOR_BYTES
        }
    }

    /// Fills in the other tables.
    #[inline(always)]
    pub(super) unsafe fn find_places<F: Format, S: Shape>(&self) {
        let (g, conv) = (self.g, &self.g.conv);
        let mut entry = thread::thread_idx_x();
        while entry < g.offsets {
            self.offsets.store(entry, self.offset::<F>(entry));
            entry += BLOCK_THREADS;
        }
        let mut pixel = thread::thread_idx_x();
        while pixel < S::TILE.pixels() {
            let (d, in_plane) = div_rem(pixel, g.plane_pitch);
            let (h, w) = div_rem(in_plane, g.tile_pitch);
            let used = d < g.tile_d && h < g.tile_h && w < g.tile_w;
            let row = d * conv.stride_d * g.patch_h + h * conv.stride_h;
            let base = (row * g.patch_row() + w) * VECTOR_BYTES;
            self.bases.store(pixel, if used { base } else { 0 });
            self.pixels
                .store(pixel, if used { packed(d, h, w) } else { OUTSIDE });
            self.positions.store(pixel, (d * conv.p + h) * conv.q + w);
            pixel += BLOCK_THREADS;
        }
        let mut window = thread::thread_idx_x();
        if g.pool_h > 0 {
            while window < g.windows() {
                let (row, column) = div_rem(window, g.windows_w);
                let first = row * g.pool_h * g.tile_pitch + column * g.pool_w;
                self.windows.store(window, packed(first, row, column));
                window += BLOCK_THREADS;
            }
        }
    }
}
