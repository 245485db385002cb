//! NHWC halo tiles, which tensor maps load box by box ([`cuda_std::tensor_map`]).
//!
//! The input is channels-last, or was reformatted to be. No thread computes the address of a K-vector. The
//! padding around the input is not in memory and comes as zeros. `launch_config::implicit_gemm` says how
//! boxes lie in the halo tile.
//!
//! # Bits
//! An output pixel multiplies the same values as from a halo tile of planes: the K-vectors of its window.
//! Filters of 0 meet zeros, or K-vectors of the window again. Planes have zeros in the columns behind the
//! last one that a window sees; no pixel multiplies them.

use cuda_std::shared::Shared;
use cuda_std::tensor_map::{self, TensorMap, copy_box};
use launch_config::implicit_gemm::sm90::{BLOCK_THREADS, HALO_WARPS, TARGET_BYTES};
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_VALUES, K_VECTOR_WORDS, STAGED_TILE_WORDS,
};

use super::super::tables::{OCTET_PIXELS, k_block_place};
use super::super::tile_coord::TileCoord;
use super::{Memory, PipelineState, Work};
use crate::parts::index::div_rem;

const _: () = assert!(TARGET_BYTES == tensor_map::TARGET_BYTES);

/// The fewest boxes that the producer warps share: one thread is faster with fewer.
const MANY_BOXES: u32 = 9;

/// Producer warps that share the boxes of a halo tile, with one thread each.
#[inline(always)]
pub(super) fn sharing_warps(g: &ImplicitGemmGeometry) -> u32 {
    if g.k_vectors.boxes >= MANY_BOXES {
        HALO_WARPS
    } else {
        1
    }
}

/// Loads the warp's boxes of every halo tile of the block's work, from number `first` on.
///
/// # Safety
/// One thread of each producer warp of halo tiles calls it, after the barrier that follows `prepare`. The
/// geometry has an NHWC halo tile, and `map` is the tensor map of its boxes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn load_halos(work: &Work<'_>, memory: &Memory, map: &TensorMap, first: u32) {
    let g = work.g;
    let pipeline = memory.halos();
    let step = sharing_warps(g);
    if first >= step {
        return;
    }
    let (own, _) = div_rem(g.staged_tiles.of_k_block + step - 1 - first, step);
    let bytes = own * g.staged_tiles.bytes;
    let mut state = PipelineState::FIRST;
    let mut number = 0;
    while memory.has_tile(number) {
        let place = TileCoord::of(memory.work_tile(number), g);
        if first == 0 {
            memory.store_coord(number, &place);
        }
        let [mut k_block, end_k_block] = work.k_blocks();
        while k_block < end_k_block {
            let start = start_of(work, &place, k_block, 1);
            let stage = state.stage * (g.k_block_bytes(1) / 4);
            // The phase of parity 1 of a new barrier counts as over: its stage is empty.
            pipeline.empty(state.stage).wait(state.parity ^ 1);
            let full = pipeline.full(state.stage);
            full.arrive_expect(bytes);
            let mut staged_tile = first;
            while staged_tile < g.staged_tiles.of_k_block {
                let entry = STAGED_TILE_WORDS * staged_tile;
                let from = memory.sources.load_vec(entry);
                let to = stage + memory.sources.load(entry + 4);
                copy_box(memory.halos.addr(to), map, coordinates(start, from), full);
                staged_tile += step;
            }
            state = state.next(&pipeline);
            k_block += 1;
        }
        number += 1;
    }
}

/// Returns the coordinates of a copy at distance `from` from its K block's start.
#[inline(always)]
pub(super) fn coordinates(start: [i32; 5], from: [u32; 4]) -> [i32; 5] {
    let [a, b, c, d, sample] = start;
    let [e, f, g, h] = from.map(|index| index as i32);
    [a + e, b + f, c + g, d + h, sample]
}

/// Returns the coordinates at which the copies of a K block's halo tile start. A value is `width` elements of
/// the map. Coordinates in the padding before the input are negative.
#[inline(always)]
pub(super) unsafe fn start_of(
    work: &Work<'_>,
    place: &TileCoord,
    k_block: u32,
    width: u32,
) -> [i32; 5] {
    let g = work.g;
    let conv = &g.conv;
    let (first_plane, filter_slice) = k_block_place(g, k_block);
    let d =
        (place.z * g.slice_stride() + filter_slice * conv.dilation_d) as i32 - conv.pad_d as i32;
    let h = (place.p * conv.stride_h) as i32 - conv.pad_h as i32;
    let w = (place.q * conv.stride_w) as i32 - conv.pad_w as i32;
    let channel = (work.group * g.planes + first_plane) * K_VECTOR_VALUES * width;
    let [second, third] = in_box_order(g, [d, h]);
    [channel as i32, w, second, third, place.sample as i32]
}

/// Records for each staged tile of a K block the coordinates of its copy relative to the K block's start, the
/// position of its pixels in the halo tile, and their number of words.
///
/// # Safety
/// All threads of the block call it, each with its number. The geometry has an NHWC halo tile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn find_staged_tiles(
    g: &ImplicitGemmGeometry,
    sources: Shared<u32>,
    thread: u32,
) {
    let conv = &g.conv;
    let [rows, slices] = g.box_rows();
    let [columns, second_extent, third_extent] = g.box_axes();
    let [_, slice_step, row_step] = g.box_strides();
    let [second_step, third_step] = in_box_order(g, [slice_step, row_step]);
    let [second_lines, third_lines] = g.staged_tiles.extents;
    let [second_count, third_count] = g.staged_tiles.counts;
    let mut number = thread;
    while number < g.staged_tiles.of_k_block {
        let (rest, second) = div_rem(number, second_count);
        let (box_of_k_block, third) = div_rem(rest, third_count);
        let (span_of_k_block, number_of_box) = div_rem(box_of_k_block, g.k_vectors.boxes);
        let (second, third) = (second * second_lines, third * third_lines);

        let (rest, stride_phase) = div_rem(number_of_box, g.stride_phases);
        let (rest, strip) = div_rem(rest, g.strips.max(1));
        let (rest, slice) = div_rem(rest, slices);
        let (rest, row) = div_rem(rest, rows);
        let (t, row_stride_phase) = div_rem(rest, g.row_stride_phases);
        let d = t * conv.dilation_d + slice * g.slice_stride();
        let h = row * conv.stride_h + row_stride_phase;
        let w = strip * OCTET_PIXELS * conv.stride_w + stride_phase;
        let [of_box, of_boxes] = in_box_order(g, [d, h]);
        let channel = span_of_k_block * (K_VECTOR_VALUES << g.span_shift()) * g.source_width();
        let from = [
            channel,
            w,
            of_box + second * second_step,
            of_boxes + third * third_step,
        ];

        // A staged tile with several indices along the third axis has all indices along the second.
        let lines = columns
            * second_lines.min(second_extent - second)
            * third_lines.min(third_extent - third);
        let line = span_of_k_block * g.halo_k_vectors
            + number_of_box * g.box_pixels()
            + (third * second_extent + second) * columns;
        let span_words = K_VECTOR_WORDS << g.span_shift();
        let entry = STAGED_TILE_WORDS * number;
        sources.store_vec(entry, from);
        sources.store_vec(entry + 4, [line * span_words, lines * span_words]);
        number += BLOCK_THREADS;
    }
}

/// Returns values of slices and rows in the order of a box's axes: rows come first in the flat layout.
#[inline(always)]
pub(super) fn in_box_order<T>(g: &ImplicitGemmGeometry, [slices, rows]: [T; 2]) -> [T; 2] {
    if g.strips == 0 {
        [rows, slices]
    } else {
        [slices, rows]
    }
}
