//! Patches of an input that is cells as it lies: the eight channels of a cell are neighbours in memory, and so are the planes of a pixel.
//!
//! Neighbouring lanes bring neighbouring planes of a pixel, so that where stages have an even number of planes they read whole sectors
//! of 32 bytes. There two planes of a pixel are side by side in the patch, too, swizzled (`cuda_std::wgmma`), so that a sector is one request
//! to the level-2 cache. What
//! the padded input has around the input is not in memory, and comes as zeros.
//!
//! # Bits
//! What a pixel of the output multiplies is the same as from the packed input: cells of its window and, with filters of 0, some of those again. That
//! the packed input has zeros in the columns behind the last that a window sees changes nothing here: no pixel multiplies them.

use cuda_std::global::Global;
use cuda_std::{cp_async, opaque, thread, wgmma};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::{CELL_BYTES, CELL_WORDS, GemmGeometry, NO_COORDINATE};

use super::super::format::Format;
use super::super::place::Place;
use super::super::results::BEYOND;
use super::super::tables::{from_word, to_word};
use super::{Memory, Turn, Work};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// Cells whose places a lane looks up before it copies the first of them: as many as there are registers for.
const TOGETHER: usize = 4;

/// The place of a cell that is not in the input. No cell starts at this word.
const NOWHERE: u32 = u32::MAX;

/// Whether the input is read as it lies, which one of other values than 16-bit ones never is.
#[inline(always)]
pub(super) fn is_unpacked<F: Format>(g: &GemmGeometry) -> bool {
    let can_be = const { F::OPERANDS.is_stored() };
    can_be && g.cells.is_unpacked != 0
}

/// All of the input in words.
///
/// # Safety
/// The geometry is that of an unpacked input; `x` starts on 16 bytes and has `cells.all_cells(&conv)` cells.
#[inline(always)]
pub(super) unsafe fn words<T>(x: *const T, g: &GemmGeometry) -> Global<u32> {
    let cells = g.cells.all_cells(&g.conv) as usize;
    Global::new(x.cast(), cells * CELL_WORDS as usize)
}

/// The coordinates in a patch, in one word, that are in the input.
struct Inside {
    /// The first ones.
    first: u32,
    /// The last ones, with the bit above each set.
    last: u32,
}

impl Inside {
    /// Where the patch starts at `from` of the padded input.
    #[inline(always)]
    unsafe fn find(g: &GemmGeometry, from: [u32; 3]) -> Self {
        let conv = &g.conv;
        let axes = [
            (conv.pad_d, conv.d),
            (conv.pad_h, conv.h),
            (conv.pad_w, conv.w),
        ];
        let [mut first, mut last] = [[0; 3]; 2];
        unroll!(3, |axis| {
            let (padding, extent) = axes[axis];
            let end = (padding + extent).saturating_sub(from[axis]);
            // Behind the input nothing is, whatever its coordinate.
            first[axis] = if end == 0 {
                NO_COORDINATE
            } else {
                padding.saturating_sub(from[axis]).min(NO_COORDINATE)
            };
            last[axis] = end.min(NO_COORDINATE).saturating_sub(1);
        });
        Self {
            first: to_word(first[0], first[1], first[2]),
            last: to_word(last[0], last[1], last[2]) | BEYOND,
        }
    }

    /// [`NOWHERE`] for coordinates that are not in the input, and 0 for those that are.
    #[inline(always)]
    fn nowhere(&self, coordinates: u32) -> u32 {
        let from_first = (coordinates | BEYOND) - self.first;
        let to_last = self.last - coordinates;
        let is_outside = from_first & to_last & BEYOND != BEYOND;
        u32::from(is_outside).wrapping_neg()
    }
}

/// Starts to copy a stage's patch to a slot: each lane one of some planes of every so many cells, of [`TOGETHER`] of which it
/// looks up the places at a time, so that no copy waits for a place.
///
/// # Safety
/// All lanes of the warp call it, and `input` is what [`words`] gave.
#[inline(always)]
pub(super) unsafe fn start_patch(
    work: &Work<'_>,
    memory: &Memory,
    input: Global<u32>,
    place: &Place,
    stage: u32,
    turn: Turn,
) {
    memory.patches().free(turn.slot).wait(turn.parity ^ 1);
    // Computed anew for each stage, or what depends on it would take more registers than there are.
    let thread = opaque::to_compiler(thread::thread_idx_x());
    let g = &GemmGeometry {
        stage_planes: opaque::to_compiler(work.g.stage_planes),
        patch_cells: opaque::to_compiler(work.g.patch_cells),
        patch_columns: opaque::to_compiler(work.g.patch_columns),
        planes: opaque::to_compiler(work.g.planes),
        ..*work.g
    };
    let (conv, strides) = (&g.conv, &g.cells);
    let (stage, filter_slice) = div_rem(stage, g.depth_stages);
    let from = [
        place.z * g.slice_stride() + filter_slice * conv.dilation_d,
        place.p * conv.stride_h,
        place.q * conv.stride_w,
    ];
    let inside = Inside::find(g, from);
    // Of the patch's first cell, from the sample's; before it in the padding, wrapped. Cells of the input are behind it.
    let first = (from[0].wrapping_sub(conv.pad_d).wrapping_mul(strides.slice))
        .wrapping_add(from[1].wrapping_sub(conv.pad_h).wrapping_mul(strides.row))
        .wrapping_add(
            from[2]
                .wrapping_sub(conv.pad_w)
                .wrapping_mul(strides.column),
        );
    let sample_words = strides.sample_cells(conv) as usize * CELL_WORDS as usize;
    let before = place.sample as usize * strides.sample as usize * CELL_WORDS as usize;
    let sample = input.slice(before, sample_words);

    let joined = work.g.joined();
    let together = g.planes_together();
    let shift = together.trailing_zeros();
    let lane = thread % WARP_THREADS;
    let lanes_cells = WARP_THREADS >> shift;
    let first_plane = stage * g.stage_planes;
    let first_of_group = work.group * g.planes;
    let slot = turn.slot * (g.stage_bytes(1) / 4);
    let cells = g.packed_patch_cells();
    let mut cell = lane >> shift;
    while cell < cells {
        let lanes_cells = opaque::to_compiler(lanes_cells);
        let left = (cells - cell + lanes_cells - 1) >> lanes_cells.trailing_zeros();
        let mut sources = [NOWHERE; TOGETHER];
        // Without a branch for each, so that they are under way together.
        unroll!(4, |i| {
            let of_patch = (cell + i as u32 * lanes_cells).min(cells - 1);
            let coordinates = memory.sources.load(of_patch);
            let [d, h, w] = from_word(coordinates);
            let at = first
                .wrapping_add(d.wrapping_mul(strides.slice))
                .wrapping_add(h.wrapping_mul(strides.row))
                .wrapping_add(w.wrapping_mul(strides.column));
            // Below 2^32, as is `plane * CELL_WORDS` below: samples of more words are not read as they lie.
            sources[i] = at.wrapping_mul(CELL_WORDS) | inside.nowhere(coordinates);
        });
        let mut local = lane & (together - 1);
        while local < g.stage_planes {
            // Filters of channels that do not exist are 0, whatever they meet: the last ones again.
            let plane = first_of_group + (first_plane + local).min(g.planes - 1);
            let from = plane * CELL_WORDS;
            let cell = opaque::to_compiler(cell);
            // Planes are apart, or two are side by side.
            let (plane, of_pair) = (local >> joined, local & joined);
            let target = ((plane * g.patch_cells + cell) << joined) + of_pair;
            let target = memory.patches.addr(slot + target * CELL_WORDS);
            // The lane's next cells are multiples of what swizzles repeat after further on.
            let target = if joined == 0 {
                target
            } else {
                wgmma::swizzled(target)
            };
            let step = (lanes_cells * CELL_BYTES) << joined;
            unroll!(4, |i| {
                if (i as u32) < left {
                    let source = opaque::to_compiler(sources[i]);
                    let is_there = source != NOWHERE;
                    let bytes = if is_there { CELL_BYTES } else { 0 };
                    let source = if is_there { source + from } else { 0 };
                    let at = target.offset(i as u32 * step);
                    cp_async::copy16_zfill(at, sample, source as usize, bytes);
                }
            });
            local += together;
        }
        cell += TOGETHER as u32 * lanes_cells;
    }
}
