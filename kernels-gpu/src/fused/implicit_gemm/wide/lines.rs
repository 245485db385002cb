//! Patches of lines: of an input that is cells as it lies, or that was packed as such a one lies.
//!
//! A tensor map brings them ([`cuda_std::tensor_map`]), box by box, so that nobody computes where a cell is. What the
//! padded input has around the input is not in memory, and comes as zeros. How the boxes lie: `op_spec::launch::implicit_gemm::lines`.
//!
//! # Bits
//! What a pixel of the output multiplies is the same as from a patch of planes: cells of its window and, with filters of 0, zeros or some of those again. That
//! planes have zeros in the columns behind the last that a window sees changes nothing here: no pixel multiplies them.

use cuda_std::shared::Shared;
use cuda_std::tensor_map::{self, TensorMap, copy_box};
use op_spec::launch::implicit_gemm::wide::{BLOCK_THREADS, PATCH_WARPS, TARGET_BYTES};
use op_spec::launch::implicit_gemm::{CELL_BYTES, CELL_VALUES, CELL_WORDS, GemmGeometry};

use super::super::place::Place;
use super::super::tables::{OCTET_PIXELS, stage_place};
use super::{Memory, Turn, Work};
use crate::parts::index::div_rem;

const _: () = assert!(TARGET_BYTES == tensor_map::TARGET_BYTES);

/// Boxes from which on warps share them: one thread is sooner done with few without others.
const MANY_BOXES: u32 = 9;

/// Warps that share the boxes of a patch, each of which has a thread for it.
#[inline(always)]
pub(super) fn sharing_warps(g: &GemmGeometry) -> u32 {
    if g.cells.boxes >= MANY_BOXES {
        PATCH_WARPS
    } else {
        1
    }
}

/// Brings boxes of all of the block's work: those of each patch from number `first` on that are the warp's turn.
///
/// # Safety
/// One thread of each warp that brings patches calls it, after the barrier behind `prepare`. The geometry is of lines, and `map` brings its boxes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn bring_patches(work: &Work<'_>, memory: &Memory, map: &TensorMap, first: u32) {
    let g = work.g;
    let ring = memory.patches();
    let step = sharing_warps(g);
    if first >= step {
        return;
    }
    let (own_boxes, _) = div_rem(g.cells.boxes + step - 1 - first, step);
    let bytes = own_boxes * g.box_used() * g.stage_planes * CELL_BYTES;
    let mut turn = Turn::FIRST;
    let mut item = work.first_item;
    while item < g.items() as u32 {
        let place = Place::of(item, g);
        let [mut stage, end_stage] = work.stages();
        while stage < end_stage {
            // A new barrier's phase of parity 1 is over, as it were: its slot is free.
            ring.free(turn.slot).wait(turn.parity ^ 1);
            ring.filled(turn.slot).arrive_expect(bytes);
            bring_boxes(work, memory, map, [first, step], &place, stage, turn);
            turn = turn.next(&ring);
            stage += 1;
        }
        item += work.item_step;
    }
}

/// Starts the copies of every `step`th of a stage's boxes from number `first` on.
#[inline(always)]
unsafe fn bring_boxes(
    work: &Work<'_>,
    memory: &Memory,
    map: &TensorMap,
    [first, step]: [u32; 2],
    place: &Place,
    stage: u32,
    turn: Turn,
) {
    let g = work.g;
    let conv = &g.conv;
    let filled = memory.patches().filled(turn.slot);
    let (first_plane, filter_slice) = stage_place(g, stage);
    // Before the input they are negative.
    let d =
        (place.z * g.slice_stride() + filter_slice * conv.dilation_d) as i32 - conv.pad_d as i32;
    let h = (place.p * conv.stride_h) as i32 - conv.pad_h as i32;
    let w = (place.q * conv.stride_w) as i32 - conv.pad_w as i32;
    let first_channel = (work.group * g.planes + first_plane) * CELL_VALUES;
    let line_words = CELL_WORDS << g.line_shift();
    let box_words = g.box_lines() * line_words;
    let mut to_planes = turn.slot * (g.stage_bytes(1) / 4);
    let mut plane = 0;
    while plane < g.stage_planes {
        let channel = (first_channel + plane * CELL_VALUES) as i32;
        let mut to = to_planes + first * box_words;
        let mut number = first;
        while number < g.cells.boxes {
            let [d_in_patch, h_in_patch, w_in_patch, _] = memory
                .sources
                .load_vec::<4>(4 * number)
                .map(|index| index as i32);
            let first = [w + w_in_patch, d + d_in_patch, h + h_in_patch];
            let at = order(g, channel, first, place.sample as i32);
            copy_box(memory.patches.addr(to), map, at, filled);
            to += step * box_words;
            number += step;
        }
        to_planes += g.patch_cells * line_words;
        plane += 1 << g.line_shift();
    }
}

/// Notes where each box starts in the padded input, from the patch's first slice, row and column.
///
/// # Safety
/// All threads of the block call it, each with its number. The geometry is of lines.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn find_boxes(g: &GemmGeometry, sources: Shared<u32>, thread: u32) {
    let conv = &g.conv;
    let [rows, slices] = g.box_rows();
    let mut number = thread;
    while number < g.cells.boxes {
        let (rest, residue) = div_rem(number, g.residues);
        let (rest, strip) = div_rem(rest, g.strips.max(1));
        let (rest, slice) = div_rem(rest, slices);
        let (rest, row) = div_rem(rest, rows);
        let (t, row_residue) = div_rem(rest, g.row_residues);
        let d = t * conv.dilation_d + slice * g.slice_stride();
        let h = row * conv.stride_h + row_residue;
        let w = strip * OCTET_PIXELS * conv.stride_w + residue;
        sources.store_vec(4 * number, [d, h, w, 0]);
        number += BLOCK_THREADS;
    }
}

/// The coordinates of a box as its map has them: slices before rows where tiles are of octets.
#[inline(always)]
fn order(g: &GemmGeometry, channel: i32, [w, d, h]: [i32; 3], sample: i32) -> [i32; 5] {
    if g.strips == 0 {
        [channel, w, h, d, sample]
    } else {
        [channel, w, d, h, sample]
    }
}
