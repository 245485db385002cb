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
use op_spec::launch::implicit_gemm::{CELL_VALUES, CELL_WORDS, GemmGeometry, PIECE_WORDS};

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
    let (own, _) = div_rem(g.pieces.of_stage + step - 1 - first, step);
    let bytes = own * g.pieces.bytes;
    let mut turn = Turn::FIRST;
    let mut item = work.first_item;
    while item < g.items() as u32 {
        let place = Place::of(item, g);
        let [mut stage, end_stage] = work.stages();
        while stage < end_stage {
            let start = start_of(work, &place, stage, 1);
            let slot = turn.slot * (g.stage_bytes(1) / 4);
            // A new barrier's phase of parity 1 is over, as it were: its slot is free.
            ring.free(turn.slot).wait(turn.parity ^ 1);
            let filled = ring.filled(turn.slot);
            filled.arrive_expect(bytes);
            let mut number = first;
            while number < g.pieces.of_stage {
                let entry = PIECE_WORDS * number;
                let from = memory.sources.load_vec(entry);
                let to = slot + memory.sources.load(entry + 4);
                copy_box(
                    memory.patches.addr(to),
                    map,
                    coordinates(start, from),
                    filled,
                );
                number += step;
            }
            turn = turn.next(&ring);
            stage += 1;
        }
        item += work.item_step;
    }
}

/// Where a copy starts that is `from` behind its stage's start.
#[inline(always)]
pub(super) fn coordinates(start: [i32; 5], from: [u32; 4]) -> [i32; 5] {
    let [a, b, c, d, sample] = start;
    let [e, f, g, h] = from.map(|index| index as i32);
    [a + e, b + f, c + g, d + h, sample]
}

/// Where the copies of a stage's patch start, as its map has coordinates, of elements `width` of which are a value; negative before the input.
#[inline(always)]
pub(super) unsafe fn start_of(work: &Work<'_>, place: &Place, stage: u32, width: u32) -> [i32; 5] {
    let g = work.g;
    let conv = &g.conv;
    let (first_plane, filter_slice) = stage_place(g, stage);
    let d =
        (place.z * g.slice_stride() + filter_slice * conv.dilation_d) as i32 - conv.pad_d as i32;
    let h = (place.p * conv.stride_h) as i32 - conv.pad_h as i32;
    let w = (place.q * conv.stride_w) as i32 - conv.pad_w as i32;
    let channel = (work.group * g.planes + first_plane) * CELL_VALUES * width;
    let [second, third] = in_box_order(g, [d, h]);
    [channel as i32, w, second, third, place.sample as i32]
}

/// Notes of each piece of a stage where its copy starts, from the stage's start; and where its lines are in the patch, and of how many words.
///
/// # Safety
/// All threads of the block call it, each with its number. The geometry is of lines.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn find_pieces(g: &GemmGeometry, sources: Shared<u32>, thread: u32) {
    let conv = &g.conv;
    let [rows, slices] = g.box_rows();
    let [columns, second_extent, third_extent] = g.box_axes();
    let [_, slice_step, row_step] = g.box_steps();
    let [second_step, third_step] = in_box_order(g, [slice_step, row_step]);
    let [second_lines, third_lines] = g.pieces.extents;
    let [second_count, third_count] = g.pieces.counts;
    let mut number = thread;
    while number < g.pieces.of_stage {
        let (rest, second) = div_rem(number, second_count);
        let (box_of_stage, third) = div_rem(rest, third_count);
        let (line_of_stage, number_of_box) = div_rem(box_of_stage, g.cells.boxes);
        let (second, third) = (second * second_lines, third * third_lines);

        let (rest, residue) = div_rem(number_of_box, g.residues);
        let (rest, strip) = div_rem(rest, g.strips.max(1));
        let (rest, slice) = div_rem(rest, slices);
        let (rest, row) = div_rem(rest, rows);
        let (t, row_residue) = div_rem(rest, g.row_residues);
        let d = t * conv.dilation_d + slice * g.slice_stride();
        let h = row * conv.stride_h + row_residue;
        let w = strip * OCTET_PIXELS * conv.stride_w + residue;
        let [of_box, of_boxes] = in_box_order(g, [d, h]);
        let channel = line_of_stage * (CELL_VALUES << g.line_shift()) * g.source_width();
        let from = [
            channel,
            w,
            of_box + second * second_step,
            of_boxes + third * third_step,
        ];

        // Of several along the third axis a piece has all along the second.
        let lines = columns
            * second_lines.min(second_extent - second)
            * third_lines.min(third_extent - third);
        let line = line_of_stage * g.patch_cells
            + number_of_box * g.box_lines()
            + (third * second_extent + second) * columns;
        let line_words = CELL_WORDS << g.line_shift();
        let entry = PIECE_WORDS * number;
        sources.store_vec(entry, from);
        sources.store_vec(entry + 4, [line * line_words, lines * line_words]);
        number += BLOCK_THREADS;
    }
}

/// What is along slices and rows in the order of a box's axes: rows come first where tiles are not of octets.
#[inline(always)]
pub(super) fn in_box_order<T>(g: &GemmGeometry, [slices, rows]: [T; 2]) -> [T; 2] {
    if g.strips == 0 {
        [rows, slices]
    } else {
        [slices, rows]
    }
}
