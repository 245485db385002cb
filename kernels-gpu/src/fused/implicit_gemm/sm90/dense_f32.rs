//! Staged tiles of a dense f32 input: a lane gathers the values of a K-vector of the halo tile, which are a
//! channel's distance apart, and converts them to f16. `launch_config::implicit_gemm` describes the boxes,
//! `staged_f32` the pipeline and the scales.

use cuda_std::shared::Shared;
use cuda_std::{math, opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::BLOCK_THREADS;
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_VALUES, K_VECTOR_WORDS, STAGED_K_VECTOR_WORDS, STAGED_TILE_WORDS,
};

use super::super::format::Format;
use super::super::tables::{OCTET_PIXELS, k_block_place};
use super::super::tile_coord::TileCoord;
use super::Work;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// Values of a K-vector.
const VALUES: usize = K_VECTOR_VALUES as usize;

/// K-vectors that a lane converts at a time.
const TOGETHER: usize = 2;

/// Records the source and the target of each staged tile of a K block, and of each K-vector of a staged tile.
///
/// For a staged tile, these are the coordinates of its copy relative to the K block's start, the word of its
/// first K-vector in the halo tile, and the number of its K-vectors. For a K-vector, they are the word of its
/// first value relative to the staged tile, and its word in the halo tile relative to the first K-vector's.
///
/// # Safety
/// All threads of the block call it, each with its number. The geometry reads dense f32 in place.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn find_staged_tiles(
    g: &ImplicitGemmGeometry,
    sources: Shared<u32>,
    thread: u32,
) {
    let [rows, columns] = g.staged_tiles.extents;
    let [tiles, slices] = g.staged_tiles.counts;
    let of_slice_row = g.slice_row_k_vectors();
    let of_row = g.row_slices() * of_slice_row;
    let mut number = thread;
    while number < g.staged_tiles.of_k_block {
        let (rest, tile) = div_rem(number, tiles);
        let (plane, slice) = div_rem(rest, slices);
        let (tap, of_row_slice) = div_rem(slice, g.row_slices());
        let d = match g.strips {
            0 => slice,
            _ => of_row_slice * g.slice_stride() + tap * g.conv.dilation_d,
        };
        let row = tile * rows;
        let k_vector = plane * g.halo_k_vectors
            + (tap * g.slice_rows() + row) * of_row
            + of_row_slice * of_slice_row;
        let k_vectors = rows.min(g.slice_rows() - row) * of_slice_row;
        let entry = STAGED_TILE_WORDS * number;
        sources.store_vec(entry, [0, row, d, plane * g.k_vector_channels]);
        sources.store_vec(entry + 4, [k_vector * K_VECTOR_WORDS, k_vectors]);
        number += BLOCK_THREADS;
    }
    let mut k_vector = thread;
    while k_vector < g.staged_k_vectors() {
        let (row, of_slice_row_k_vector) = div_rem(k_vector, of_slice_row);
        let (strip, at) = div_rem(of_slice_row_k_vector, g.halo_row());
        let (stride_phase, column) = div_rem(at, g.halo_columns);
        let column = (strip * OCTET_PIXELS + column) * g.conv.stride_w + stride_phase;
        let column = column + g.columns_before();
        let to = row * of_row + of_slice_row_k_vector;
        let entry = k_vector_entry(g, k_vector);
        sources.store_vec(entry, [row * columns + column, to * K_VECTOR_WORDS]);
        k_vector += BLOCK_THREADS;
    }
}

/// Returns the coordinates at which the copies of a K block's halo tile start. Coordinates in the padding
/// before the input are negative.
#[inline(always)]
pub(super) unsafe fn start_of(work: &Work<'_>, place: &TileCoord, k_block: u32) -> [i32; 5] {
    let g = work.g;
    let conv = &g.conv;
    let (first_plane, filter_slice) = k_block_place(g, k_block);
    let d = place.z * g.slice_stride() + filter_slice * conv.dilation_d;
    let channel = work.group * conv.group_c + first_plane * g.k_vector_channels;
    [
        (place.q * conv.stride_w) as i32 - (conv.pad_w + g.columns_before()) as i32,
        (place.p * conv.stride_h) as i32 - conv.pad_h as i32,
        d as i32 - conv.pad_d as i32,
        channel as i32,
        place.sample as i32,
    ]
}

/// The entry of a staged tile's K-vector in the table of sources.
#[inline(always)]
fn k_vector_entry(g: &ImplicitGemmGeometry, k_vector: u32) -> u32 {
    STAGED_TILE_WORDS * g.staged_tiles.of_k_block + STAGED_K_VECTOR_WORDS * k_vector
}

/// Converts a staged tile: `values`, which become `k_vectors` K-vectors of `halos` from word `to` on. Returns
/// the largest magnitude that the lane converted.
///
/// # Safety
/// All lanes of the warp call it. `sources` is the table of [`find_staged_tiles`].
#[inline(always)]
pub(super) unsafe fn convert<F: Format>(
    g: &ImplicitGemmGeometry,
    (values, sources): (Shared<f32>, Shared<u32>),
    (halos, to, k_vectors): (Shared<u32>, u32, u32),
    scale: f32,
) -> f32 {
    let [rows, columns] = g.staged_tiles.extents;
    let channel = rows * columns;
    let channels = g.k_vector_channels;
    // A K-vector of few channels holds those of several columns of the filter.
    let mut offsets = [0; VALUES];
    unroll!(8, |i| {
        let i = i as u32;
        let column = i >> channels.trailing_zeros();
        offsets[i as usize] = (i & (channels - 1)) * channel + column * g.conv.dilation_w;
    });
    let mut largest = 0.0f32;
    let mut k_vector = thread::thread_idx_x() % WARP_THREADS;
    while k_vector < k_vectors {
        opaque::not_unrolled();
        let mut loaded = [[0.0f32; VALUES]; TOGETHER];
        let mut targets = [0; TOGETHER];
        unroll!(2, |i| {
            // Behind the last K-vector, that one again, so that no load waits for a condition.
            let of_lane = (k_vector + i as u32 * WARP_THREADS).min(k_vectors - 1);
            let [from, of_k_vector] = sources.load_vec(k_vector_entry(g, of_lane));
            targets[i] = to + of_k_vector;
            unroll!(8, |value| {
                loaded[i][value] = values.load(from + offsets[value]);
            });
        });
        unroll!(2, |i| {
            let mut words = [0; 4];
            unroll!(4, |word| {
                let [low, high] = [loaded[i][2 * word], loaded[i][2 * word + 1]];
                // `max` drops NaN.
                largest = largest.max(math::abs(low)).max(math::abs(high));
                words[word] = F::pack(low * scale, high * scale);
            });
            if k_vector + (i as u32 * WARP_THREADS) < k_vectors {
                halos.store_vec(targets[i], words);
            }
        });
        k_vector = opaque::to_compiler(k_vector + TOGETHER as u32 * WARP_THREADS);
    }
    largest
}

const _: () = assert!(TOGETHER == 2 && VALUES == 8);
