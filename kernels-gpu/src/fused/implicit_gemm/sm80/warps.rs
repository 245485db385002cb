//! The K block by `mma.sync` (sm_80 and later), warp by warp.
//!
//! `ldmatrix` takes the address of a K-vector from each lane: the base of a pixel plus the offset of a tap.
//!
//! # Promotion
//! Tensor cores truncate when they add to an accumulator, so a long sum drifts towards zero, on average by up
//! to `2^-24` of itself for each instruction where signs are mixed. In the f16x2 split a lane therefore
//! promotes its accumulators after [`PROMOTION_MMA_STEPS`] steps (or one more, since steps come in twos): it
//! adds them to a total in the shared memory of the results, with rounding, and starts them anew. In the
//! bf16x3 split, whose steps are one instruction each, it does so after twice as many steps. Shorter sums are
//! never promoted. An instruction adds 16 terms and a sum and cuts off less than `5.25 * 2^-23` of the
//! largest of them, so 51 instructions cut off less than 3.2e-5 of the sum of magnitudes. The usual error is
//! 1e-6 of the results' standard deviation for any number of terms; docs/tuning.md has it beside the errors
//! of an FMA chain.

use cuda_std::global::Global;
use cuda_std::shared;
use cuda_std::{mma, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{
    K_VECTOR_BYTES, MMA_STEP_K_VECTORS, OPERAND_ROWS, OPERAND_WORDS, PROMOTION_MMA_STEPS,
};

use super::super::format::Format;
use super::super::halo::Halo;
use super::super::multiplier::Multiplier;
use super::super::results::Results;
use super::super::tile::{MAX_OPERANDS, MAX_PIXEL_OCTETS, Sums, TileShape};
use crate::parts::unroll::unroll;

/// A flag in `kept`, above any number of steps.
const PROMOTED: u32 = 1 << 16;

/// The most pairs of pixel octets of a warp.
const MAX_PAIRS: usize = MAX_PIXEL_OCTETS / 4;

/// Operands of filters, by part.
type Filters = [[[u32; 4]; MAX_OPERANDS]; 2];

/// Loads a step's operands for the filters of the thread's warp.
#[inline(always)]
unsafe fn load_filters<F: Format, S: TileShape>(
    operands: Global<u32>,
    step: u32,
    first: u32,
) -> Filters {
    let parts = F::OPERANDS.step_parts();
    let sets = S::TILE.filters() / OPERAND_ROWS;
    let lane = thread::thread_idx_x() % WARP_THREADS;
    let of_step = ((step * parts * sets + first) * OPERAND_WORDS + lane * 4) as usize;
    let mut filters: Filters = [[[0; 4]; MAX_OPERANDS]; 2];
    unroll!(2, |part| {
        if (part as u32) < parts {
            unroll!(4, |m| {
                if (m as u32) < S::TILE.operands {
                    let operand = part * sets as usize + m;
                    let at = of_step + operand * OPERAND_WORDS as usize;
                    filters[part][m] = operands.load_vec_readonly::<4>(at);
                }
            });
        }
    });
    filters
}

/// Accumulates one MMA step. `bases` has the addresses of the lane's pixels in every second octet of pixels.
#[inline(always)]
unsafe fn multiply<F: Format, S: TileShape>(
    sums: &mut Sums,
    filters: &Filters,
    bases: &[u32; MAX_PAIRS],
    low_part: u32,
    halo: shared::SharedAddr,
) {
    let mut pixels = [[[0; 2]; MAX_PIXEL_OCTETS]; 2];
    unroll!(2, |part| {
        if (part as u32) < F::OPERANDS.step_parts() {
            unroll!(4, |pair| {
                if 2 * (pair as u32) < S::TILE.pixel_octets {
                    let at = halo.offset(bases[pair] + part as u32 * low_part);
                    let [a, b, c, d] = mma::ldmatrix_x4(at);
                    pixels[part][2 * pair] = [a, b];
                    pixels[part][2 * pair + 1] = [c, d];
                }
            });
        }
    });
    // Parts of filters and of pixels: high by high, high by low, low by high.
    unroll!(4, |product| {
        let (filter_part, pixel_part) = (product / 2, product % 2);
        if product < 3 && ((filter_part + pixel_part) as u32) < F::OPERANDS.step_parts() {
            unroll!(4, |m| {
                if (m as u32) < S::TILE.operands {
                    unroll!(8, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            sums[m][n] = F::multiply_add(
                                sums[m][n],
                                filters[filter_part][m],
                                pixels[pixel_part][n],
                            );
                        }
                    });
                }
            });
        }
    });
}

/// The state of a thread between K blocks.
pub(in super::super) struct Warps {
    operands: Global<u32>,
    /// The next step of the whole reduction, and its filters.
    step: u32,
    filters: Filters,
    /// The warp's first operand among the operands of a step.
    first_operand: u32,
    /// The bases of the lane's pixels in a halo tile, for every second octet.
    bases: [u32; MAX_PAIRS],
    /// 1 in lanes that give the addresses of a step's second K-vector.
    second: u32,
    /// The number of steps in the accumulators, plus [`PROMOTED`] if accumulators of this tile were promoted.
    kept: u32,
}

impl Warps {
    /// Counts the next steps. Promotes the accumulators first if they have enough steps.
    #[inline(always)]
    unsafe fn keep<F: Format, S: TileShape>(
        &mut self,
        mma_steps: u32,
        sums: &mut Sums,
        results: &Results<'_, F, S>,
    ) {
        if F::OPERANDS.parts > 1 && S::TILE.promotes() {
            // A step of a single-part pass is one instruction, not three.
            let max = if F::OPERANDS.passes > 1 {
                2 * PROMOTION_MMA_STEPS
            } else {
                PROMOTION_MMA_STEPS
            };
            if self.kept % PROMOTED >= max {
                results.promote(sums, self.kept < PROMOTED);
                self.kept = PROMOTED;
            }
            self.kept += mma_steps;
        }
    }
}

impl<F: Format, S: TileShape> Multiplier<F, S> for Warps {
    #[inline(always)]
    unsafe fn new(operands: Global<u32>, halo: &Halo<'_>, results: &Results<'_, F, S>) -> Self {
        let lane = thread::thread_idx_x() % WARP_THREADS;
        // Lanes 0 to 7 give the addresses of an octet's pixels in the first K-vector, lanes 8 to 15 in the
        // second. Lanes 16 to 31 do the same for the next octet of pixels.
        let first_pixel = results.pixel_warp * S::TILE.warp_pixels() + lane / 16 * 8 + lane % 8;
        let mut bases = [0; MAX_PAIRS];
        unroll!(4, |pair| {
            if 2 * (pair as u32) < S::TILE.pixel_octets {
                bases[pair] = halo.tables.bases.load(first_pixel + 16 * pair as u32);
            }
        });
        let first_operand = results.filter_warp * S::TILE.operands;
        Self {
            operands,
            step: 0,
            filters: load_filters::<F, S>(operands, 0, first_operand),
            first_operand,
            bases,
            second: lane / 8 % 2,
            kept: 0,
        }
    }

    #[inline(always)]
    fn show_halo() {}

    #[inline(always)]
    unsafe fn multiply_k_block(
        &mut self,
        sums: &mut Sums,
        halo: &Halo<'_>,
        results: &Results<'_, F, S>,
        buffer: u32,
    ) {
        let g = halo.tables.g;
        let parts = F::OPERANDS.parts;
        let all_mma_steps = g.k_blocks * g.mma_steps;
        let low_part = g.halo_k_vectors * K_VECTOR_BYTES;
        let at = halo.buffers.addr(buffer * (g.k_block_bytes(parts) / 4));
        let mut k_vector = self.second;
        // Two steps at a time, so that one step's operands are loaded while the other's are used.
        let mut left = g.mma_steps;
        while left >= 2 {
            self.keep(2, sums, results);
            let others = load_filters::<F, S>(self.operands, self.step + 1, self.first_operand);
            let offset = halo.tables.offsets.load(k_vector);
            multiply::<F, S>(
                sums,
                &self.filters,
                &self.bases,
                low_part,
                at.offset(offset),
            );
            self.step = if self.step + 2 < all_mma_steps {
                self.step + 2
            } else {
                0
            };
            self.filters = load_filters::<F, S>(self.operands, self.step, self.first_operand);
            let offset = halo.tables.offsets.load(k_vector + MMA_STEP_K_VECTORS);
            multiply::<F, S>(sums, &others, &self.bases, low_part, at.offset(offset));
            k_vector += 2 * MMA_STEP_K_VECTORS;
            left -= 2;
        }
        if left > 0 {
            self.keep(1, sums, results);
            let offset = halo.tables.offsets.load(k_vector);
            multiply::<F, S>(
                sums,
                &self.filters,
                &self.bases,
                low_part,
                at.offset(offset),
            );
            self.step = if self.step + 1 < all_mma_steps {
                self.step + 1
            } else {
                0
            };
            self.filters = load_filters::<F, S>(self.operands, self.step, self.first_operand);
        }
    }

    #[inline(always)]
    unsafe fn end(&mut self, sums: &mut Sums, results: &Results<'_, F, S>) {
        if self.kept >= PROMOTED {
            results.add_promoted(sums);
        }
        self.kept = 0;
    }
}
