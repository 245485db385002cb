//! Accumulator promotion, in the shared memory of the results.

use cuda_std::{opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::OPERAND_ROWS;

use super::super::format::Format;
use super::super::tile::{NO_SUMS, Sums, TileShape};
use super::Results;
use crate::parts::unroll::unroll;

impl<F: Format, S: TileShape> Results<'_, F, S> {
    /// Adds the accumulators to the tile's sums in shared memory (or stores them there the first time), and
    /// resets them to zero. A thread uses the same addresses each time, and shares them with no other thread.
    #[inline(always)]
    pub(in super::super) unsafe fn promote(&self, sums: &mut Sums, first: bool) {
        if !first {
            self.add_promoted(sums);
        }
        let at = self.first_place();
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(2, |i| {
                    unroll!(16, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            let values = [sums[m][n][2 * i], sums[m][n][2 * i + 1]];
                            self.tile.store_vec(at + Self::place(m, i, n), values);
                        }
                    });
                });
            }
        });
        *sums = NO_SUMS;
    }

    /// Adds the promoted sums to the accumulators.
    #[inline(always)]
    pub(in super::super) unsafe fn add_promoted(&self, sums: &mut Sums) {
        let at = self.first_place();
        unroll!(4, |m| {
            if (m as u32) < S::TILE.operands {
                unroll!(2, |i| {
                    unroll!(16, |n| {
                        if (n as u32) < S::TILE.pixel_octets {
                            let values = self.tile.load_vec::<2>(at + Self::place(m, i, n));
                            unroll!(2, |j| {
                                sums[m][n][2 * i + j] += values[j];
                            });
                        }
                    });
                });
            }
        });
    }

    /// Returns the position of the thread's first result in the tile. It is computed where it is needed, so
    /// that it takes no register before.
    #[inline(always)]
    unsafe fn first_place(&self) -> u32 {
        let thread = opaque::to_assembler(thread::thread_idx_x());
        let lane = thread % WARP_THREADS;
        let filter = self.filter_warp * S::TILE.operands * OPERAND_ROWS + lane / 4;
        filter * Self::PITCH + self.pixel_warp * S::TILE.warp_pixels() + 2 * (lane % 4)
    }

    /// Returns the distance of the results of octet `n`, row `i` (0, or 8 further) of operand `m` from
    /// `first_place`.
    #[inline(always)]
    const fn place(m: usize, i: usize, n: usize) -> u32 {
        (m as u32 * OPERAND_ROWS + 8 * i as u32) * Self::PITCH + 8 * n as u32
    }
}
