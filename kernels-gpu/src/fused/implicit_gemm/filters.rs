//! The kernel that lays out filters as tensor core operands.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, kernel, math, shared_array, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::filter_word;
use launch_config::implicit_gemm::{
    GemmTile, ImplicitGemmGeometry, K_VECTOR_VALUES, MMA_STEP_K_VECTORS, OPERAND_ROWS,
    OPERAND_WORDS, SPREAD_THREADS,
};

use super::format::{Bf16, Bf16x3, F16, F16x2, FILTER_PARTS, Format, ScaledF16, part_of_pass};
use super::tables::k_block_place;
use crate::parts::index::div_rem;
use crate::parts::prescale::prescale_for;
use crate::parts::unroll::unroll;

/// One filter, with the geometry that maps a position in an operand to a filter value.
struct Filter<'a, T: Storage> {
    weight: Global<T>,
    scale: f32,
    /// Slices of zeros in front of the filter.
    behind: u32,
    g: &'a ImplicitGemmGeometry,
}

impl<T: Storage> Filter<'_, T> {
    /// Returns the pass, plane and tap of K-vector `half` of a step of a K block. Padding has a pass or a
    /// plane beyond the last one.
    #[inline(always)]
    unsafe fn k_vector(&self, step: u32, half: u32, passes: u32) -> (u32, (u32, u32)) {
        let g = self.g;
        if g.operands.is_descriptor() {
            let (pass, step) = if passes > 1 {
                div_rem(step, g.paired_mma_steps())
            } else {
                (0, step)
            };
            if g.pair_k_vectors > 0 {
                let (row, pair) = div_rem(step, g.row_pairs());
                let column = g.first_of_pair(pair) + half;
                // With an odd number of columns, the last pair repeats a column of the pair before.
                let is_new = column >= pair * MMA_STEP_K_VECTORS;
                let exists = is_new && row < g.filter_slices * g.conv.r;
                let plane = if exists { 0 } else { g.k_block_planes };
                return (pass, (plane, row * g.column_taps + column));
            }
            let (pair, tap) = div_rem(step, g.taps);
            (pass, (pair * MMA_STEP_K_VECTORS + half, tap))
        } else {
            let k_vector = step * MMA_STEP_K_VECTORS + half;
            let (pass, k_vector) = if passes > 1 {
                div_rem(k_vector, g.k_block_k_vectors())
            } else {
                (0, k_vector)
            };
            (pass, div_rem(k_vector, g.taps))
        }
    }

    /// Returns the filter value that meets value `value` of a K-vector, by tap and by plane of the K block; 0
    /// for padding.
    #[inline(always)]
    unsafe fn value(&self, k_block: u32, (plane, tap): (u32, u32), value: u32) -> f32 {
        let (g, conv) = (self.g, &self.g.conv);
        let (first_plane, depth) = k_block_place(g, k_block);
        let (row, column) = div_rem(tap, g.column_taps);
        // If the filter's slices are K blocks, a K block has the rows of one slice. Rows in front of the
        // first one wrap to large numbers.
        let row = (depth * conv.r + row).wrapping_sub(self.behind * conv.r);
        let (j, c) = div_rem(value, g.k_vector_channels);
        let channel = (first_plane + plane) * g.k_vector_channels + c;
        let s = column * g.k_vector_columns + j;
        let in_filter = row < conv.t * conv.r && s < conv.s;
        if plane < g.k_block_planes && channel < conv.group_c && in_filter {
            let at = channel * conv.taps() + row * conv.s + s;
            self.weight.load(at as usize).to_f32() * self.scale
        } else {
            0.0
        }
    }
}

const _: () = assert!(K_VECTOR_VALUES == 8 && OPERAND_ROWS == 16);

shared_array! {
    /// The largest magnitude of each warp's values.
    static FILTER_WARPS: [u32; WARPS as usize];
}

/// Warps of a block.
const WARPS: u32 = SPREAD_THREADS / WARP_THREADS;

/// A block lays out one filter.
///
/// *Launch*: the config's `filters_shape()`. *Mapping*: a thread takes every 256th word of the filter.
/// *Barriers*: where values are scaled, one between the warps' largest magnitudes and the block's.
/// *Traffic*: each filter is read once or twice, each operand written once.
///
/// # Safety
/// `weight` is as large as the geometry says, `operands` has the config's `filter_words()`, and `descales` an
/// element for each filter if values are scaled. `tile` is the config's.
#[kernel(
    instances(F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16, bf16: Bf16]),
    max_threads = SPREAD_THREADS
)]
pub unsafe fn implicit_gemm_filters<F: Format>(
    weight: *const F::Stored,
    operands: *mut u32,
    descales: *mut f32,
    g: &ImplicitGemmGeometry,
    tile: GemmTile,
) {
    let conv = &g.conv;
    let thread = thread::thread_idx_x();
    let (group, k) = div_rem(thread::block_idx_x(), g.filter_tiles * tile.filters());
    let reduction = conv.reduction() as usize;
    // With two outputs in depth, each half of a tile's filters computes one of them.
    let (behind, of_group) = if g.outputs_d == 1 {
        (0, k)
    } else {
        div_rem(k, tile.filters() / 2)
    };
    let filter = (group * conv.group_k + of_group) as usize;
    let exists = of_group < conv.group_k;
    let weight = Global::new(weight, conv.output_channels() as usize * reduction);
    let weight = weight.slice(if exists { filter * reduction } else { 0 }, reduction);

    let mut scale = 1.0;
    if F::OPERANDS.scaled {
        let mut bits = 0;
        let mut at = thread as usize;
        while at < reduction {
            let magnitude = math::abs(weight.load(at).to_f32()).to_bits();
            if magnitude < f32::INFINITY.to_bits() {
                bits = magnitude.max(bits);
            }
            at += SPREAD_THREADS as usize;
        }
        warp::sync_warp(warp::ALL_LANES);
        let of_warps = FILTER_WARPS.view();
        let of_warp = warp::warp_reduce_max(warp::ALL_LANES, bits);
        if thread.is_multiple_of(WARP_THREADS) {
            of_warps.store(thread / WARP_THREADS, of_warp);
        }
        thread::sync_threads();
        let mut largest = 0;
        unroll!(8, |warp| {
            largest = of_warps.load(warp as u32).max(largest);
        });
        let [up, down] = prescale_for(f32::from_bits(largest));
        scale = up;
        if exists && behind == 0 && thread == 0 {
            GlobalMut::new(descales, conv.output_channels() as usize).store(filter, down);
        }
    }

    let (parts, passes) = (F::OPERANDS.step_parts(), F::OPERANDS.passes);
    let words = g.filter_words(tile, parts) as usize;
    let operands =
        GlobalMut::new(operands, conv.groups as usize * words).slice(group as usize * words, words);
    // An operand is [lane][word]. This filter has the words of one parity, in four lanes.
    let (set, row) = div_rem(k, OPERAND_ROWS);
    let sets = tile.filters() / OPERAND_ROWS;
    let (filter_tile, set) = div_rem(set, sets);
    let (high_row, quad) = div_rem(row, 8);
    let all_mma_steps = g.k_blocks * g.mma_steps;
    let filter = Filter {
        weight,
        scale,
        behind,
        g,
    };
    // Four lanes, two words each, for each step.
    let mut at = thread;
    while at < all_mma_steps * 8 {
        let (step, place) = div_rem(at, 8);
        let (quad_lane, half) = (place % 4, place / 4);
        let (k_block, step_of_k_block) = div_rem(step, g.mma_steps);
        let (pass, k_vector) = filter.k_vector(step_of_k_block, half, passes);
        let (mut low, mut high) = (0.0, 0.0);
        if exists && pass < passes {
            low = filter.value(k_block, k_vector, 2 * quad_lane);
            high = filter.value(k_block, k_vector, 2 * quad_lane + 1);
        }
        let mut word = F::pack(low, high);
        if passes > 1 && pass < passes {
            // The part that the pass multiplies.
            let mut left = part_of_pass(FILTER_PARTS, pass);
            while left > 0 {
                [low, high] = F::left(word, low, high);
                word = F::pack(low, high);
                left -= 1;
            }
        }
        let operand = ((filter_tile * all_mma_steps + step) * parts) * sets;
        let to = |part: u32| {
            // Operands of warp-specialized tiles have the layout of shared memory.
            let (operand, in_operand) = if tile.is_warp_specialized() {
                let filter = set * OPERAND_ROWS + row;
                (operand + part * sets, filter_word(filter, half, quad_lane))
            } else {
                let in_operand = (quad * 4 + quad_lane) * 4 + 2 * half + high_row;
                (operand + part * sets + set, in_operand)
            };
            (operand * OPERAND_WORDS) as usize + in_operand as usize
        };
        operands.store(to(0), word);
        if parts == 2 {
            operands.store(to(1), F::rest(word, low, high));
        }
        at += SPREAD_THREADS;
    }
}
const _: () = assert!(WARPS == 8);
