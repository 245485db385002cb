//! The K block by `wgmma` (sm_90a): the block is one warpgroup, with filters in registers.
//!
//! # Operands
//! A are the filters, in registers, 16 rows for each warp. B are the halo tile's K-vectors in place. An MMA
//! step is one tap in two planes, or two neighbouring columns of the only plane. The halves of K are
//! therefore equally far apart in every step. Pixels lie as `W64N128` says, so a tap is another start
//! address.
//!
//! # Accumulators
//! [`MMA_BATCH_STEPS`] steps are an MMA batch. In the f16x2 split an MMA batch starts from zero, and ordinary
//! additions, which round, add it to the tile's total. Tensor cores truncate (`sm80::warps` describes the
//! consequences). With so few truncating additions in a row, the error stays at 4e-7 of the results' standard
//! deviation for any number of terms. Single-part values are accumulated by the tensor cores alone, which
//! saves registers.
//!
//! Each half of 64 of the tile's pixels is an MMA batch of its own: the first one is promoted while the
//! tensor cores multiply the second. The filters of the next MMA batch are loaded meanwhile or, in the f16x2
//! split, as soon as the MMA batch is over. A multiprocessor holds two or three blocks; one multiplies while
//! another waits.

use cuda_std::global::Global;
use cuda_std::wgmma::{self, InFlight, MatrixDescriptor};
use cuda_std::{async_proxy, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{MMA_BATCH_STEPS, OPERAND_ROWS, OPERAND_WORDS};

use super::super::format::{Format, MmaBatchFilters};
use super::super::halo::Halo;
use super::super::multiplier::Multiplier;
use super::super::results::Results;
use super::super::tile::{Sums, TileShape};
use crate::parts::unroll::unroll;

/// Octets of pixels of an MMA batch.
const OCTETS: usize = 8;

/// The state of a thread between K blocks.
pub(in super::super) struct Warpgroup {
    operands: Global<u32>,
    /// The next step of the whole reduction, and the filters of its MMA batch.
    step: u32,
    filters: MmaBatchFilters,
    filter_warp: u32,
}

/// Returns the accumulators of one half of the pixels.
#[inline(always)]
fn half(sums: &Sums, half: usize) -> [f32; 32] {
    let mut values = [0.0; 32];
    unroll!(8, |n| {
        unroll!(4, |i| {
            values[4 * n + i] = sums[0][OCTETS * half + n][i];
        });
    });
    values
}

/// Stores the accumulators of an MMA batch for a half, or adds them to the promoted sums in the f16x2 split.
#[inline(always)]
fn take<F: Format>(sums: &mut Sums, half: usize, values: [f32; 32]) {
    unroll!(8, |n| {
        unroll!(4, |i| {
            let sum = &mut sums[0][OCTETS * half + n][i];
            let value = values[4 * n + i];
            *sum = if F::OPERANDS.parts == 2 {
                *sum + value
            } else {
                value
            };
        });
    });
}

/// Returns the step after an MMA batch, which may be the next tile's first.
#[inline(always)]
fn following(step: u32, all_mma_steps: u32) -> u32 {
    let next = step + MMA_BATCH_STEPS;
    if next == all_mma_steps { 0 } else { next }
}

/// Both halves of an MMA batch.
struct MmaBatch([InFlight; 2]);

impl MmaBatch {
    /// Multiplies both halves of the pixels. The K-vectors of the second half are `second_half` units behind
    /// those of the first.
    #[inline(always)]
    unsafe fn start<F: Format>(
        sums: &Sums,
        filters: &MmaBatchFilters,
        b: [MatrixDescriptor; MMA_BATCH_STEPS as usize],
        second_half: u32,
        low: u32,
    ) -> Self {
        let left = F::start(half(sums, 0), filters, b, low);
        let b = b.map(|columns| columns.offset(second_half));
        Self([left, F::start(half(sums, 1), filters, b, low)])
    }

    /// Takes the first half's accumulators while the second half is in flight. Then waits for the second half
    /// and returns its accumulators. The filters' registers are then free.
    #[inline(always)]
    unsafe fn end_left<F: Format>(self, sums: &mut Sums) -> [f32; 32] {
        let [left, right] = self.0;
        take::<F>(sums, 0, left.wait::<1>());
        right.wait::<0>()
    }

    /// Takes the accumulators of both halves.
    #[inline(always)]
    unsafe fn end<F: Format>(self, sums: &mut Sums) {
        let right = self.end_left::<F>(sums);
        take::<F>(sums, 1, right);
    }
}

impl Warpgroup {
    /// Loads the filters of the MMA batch that starts with step `step`.
    #[inline(always)]
    unsafe fn load<F: Format, S: TileShape>(
        operands: Global<u32>,
        step: u32,
        filter_warp: u32,
    ) -> MmaBatchFilters {
        let parts = F::OPERANDS.parts;
        let sets = S::TILE.filters() / OPERAND_ROWS;
        let lane = thread::thread_idx_x() % WARP_THREADS;
        let first = ((step * parts * sets + filter_warp) * OPERAND_WORDS + lane * 4) as usize;
        let mut filters: MmaBatchFilters = [[[0; 4]; MMA_BATCH_STEPS as usize]; 2];
        unroll!(4, |i| {
            if i < MMA_BATCH_STEPS as usize {
                unroll!(2, |part| {
                    if (part as u32) < parts {
                        let operand = (i * parts as usize + part) * sets as usize;
                        let at = first + operand * OPERAND_WORDS as usize;
                        filters[part][i] = operands.load_vec_readonly::<4>(at);
                    }
                });
            }
        });
        filters
    }
}

impl<F: Format, S: TileShape> Multiplier<F, S> for Warpgroup {
    #[inline(always)]
    unsafe fn new(operands: Global<u32>, _: &Halo<'_>, results: &Results<'_, F, S>) -> Self {
        let filter_warp = results.filter_warp;
        Self {
            operands,
            step: 0,
            filters: Self::load::<F, S>(operands, 0, filter_warp),
            filter_warp,
        }
    }

    #[inline(always)]
    fn show_halo() {
        async_proxy::fence_shared();
    }

    #[inline(always)]
    unsafe fn multiply_k_block(
        &mut self,
        sums: &mut Sums,
        halo: &Halo<'_>,
        _: &Results<'_, F, S>,
        buffer: u32,
    ) {
        let g = halo.tables.g;
        let parts = F::OPERANDS.parts;
        let all_mma_steps = g.k_blocks * g.mma_steps;
        let low = g.halo_k_vectors;
        let k_units = g.second_k_vector(parts);
        let second_half = OCTETS as u32 * g.octet_k_vectors;
        let at = halo.buffers.addr(buffer * (g.k_block_bytes(parts) / 4));
        let first = wgmma::unit(at);
        let columns = |step: u32| {
            let columns = |i: u32| {
                let first = first + halo.tables.offsets.load(step + i);
                MatrixDescriptor::apart(first, k_units, g.octet_k_vectors)
            };
            [columns(0), columns(1), columns(2)]
        };
        let filter_warp = self.filter_warp;
        let operands = self.operands;
        let load = |step: u32| Self::load::<F, S>(operands, step, filter_warp);
        let mut step = 0;
        if parts == 1 {
            // Two MMA batches at a time, with separate filter registers: a write to the registers of an MMA
            // batch in flight would make the assembler serialize its MMAs.
            while step + MMA_BATCH_STEPS < g.mma_steps {
                let next = self.step + MMA_BATCH_STEPS;
                let mma_batch =
                    MmaBatch::start::<F>(sums, &self.filters, columns(step), second_half, low);
                let others = load(next);
                mma_batch.end::<F>(sums);
                self.step = following(next, all_mma_steps);
                let b = columns(step + MMA_BATCH_STEPS);
                let mma_batch = MmaBatch::start::<F>(sums, &others, b, second_half, low);
                self.filters = load(self.step);
                mma_batch.end::<F>(sums);
                step += 2 * MMA_BATCH_STEPS;
            }
        }
        while step < g.mma_steps {
            let mma_batch =
                MmaBatch::start::<F>(sums, &self.filters, columns(step), second_half, low);
            self.step = following(self.step, all_mma_steps);
            let right = mma_batch.end_left::<F>(sums);
            self.filters = load(self.step);
            take::<F>(sums, 1, right);
            step += MMA_BATCH_STEPS;
        }
    }

    #[inline(always)]
    unsafe fn end(&mut self, _: &mut Sums, _: &Results<'_, F, S>) {}
}
const _: () = assert!(MMA_BATCH_STEPS == 3);
