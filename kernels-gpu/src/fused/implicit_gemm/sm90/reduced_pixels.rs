//! The pixels of windows, reduced in registers.
//!
//! A lane has two neighbouring pixels of each octet, and the lanes of a quad have its eight. Each bit of a
//! pixel's index in the staged tile therefore says where a value is: the lowest bit in a lane, the next two
//! among the lanes of a quad, the others among octets. Rows and columns of windows, and of tiles, are powers
//! of two: a window is the pixels that differ in the lowest bits of the column and in the lowest bits of the
//! row. Each of these bits takes one addition, or comparison, of pairs of values. The order of additions is
//! the same in all windows.

use cuda_std::{Storage, math, opaque, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::WARP_FILTERS;
use launch_config::implicit_gemm::{REDUCED_PIXELS, ReducedResults};

use super::super::format::Format;
use super::reduced::{LOG_ROWS_OF_SET, is_sum};
use super::results::{HALF_OCTETS, HALF_SUMS, ROW_FILTERS, Results};
use super::shared_rows::Rows;
use super::tile_epilogue::Reduced;
use crate::parts::unroll::unroll;

/// Octets of pixels of a staged tile.
const OCTETS: usize = REDUCED_PIXELS as usize / 8;

/// The values of a thread in a staged tile: of two filters, its octets, and two pixels of each.
type Values = [[[f32; 2]; OCTETS]; 2];

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Reduced> {
    /// Gives pixels beyond the output, and filters of large sets that do not exist, a value that changes no
    /// result.
    #[inline(always)]
    pub(super) unsafe fn leave_out(&self, sums: &mut [f32; SUMS]) {
        const { assert!(SUMS == HALF_SUMS && HALF_OCTETS == 16) };
        let Some(reduced) = self.reduced() else {
            return;
        };
        let has_filters = self.filters == WARP_FILTERS || reduced.log_filters < LOG_ROWS_OF_SET;
        if self.is_whole() && has_filters {
            return;
        }
        let neutral = reduced.neutral * reduced.sign;
        let inside = self.inside_bits(self.first_half);
        unroll!(2, |i| {
            let filter = opaque::to_compiler(self.lane) / 4 + ROW_FILTERS * i as u32;
            let inside = if filter < self.filters { inside } else { 0 };
            unroll!(16, |n| {
                unroll!(2, |j| {
                    let at = 4 * n + 2 * i + j;
                    let is_inside = inside & 1 << (2 * n + j) != 0;
                    sums[at] = if is_inside { sums[at] } else { neutral };
                });
            });
        });
    }

    /// Reduces the pixels of the windows of staged tile `staged_tile` of a half, whose values are rounded to
    /// the stored type, and stores the results to shared memory.
    ///
    /// # Safety
    /// All lanes of the warp make this call, and no lane reads the previous values any more.
    #[inline(always)]
    pub(super) unsafe fn store_windows(&self, sums: &[f32; SUMS], staged_tile: usize) {
        let Some(reduced) = self.reduced() else {
            return;
        };
        let mut values: Values = [[[0.0; 2]; OCTETS]; 2];
        unroll!(8, |n| {
            unroll!(2, |i| {
                let at = 4 * (OCTETS * staged_tile + n) + 2 * i;
                let rounded = F::Stored::from_f32_pair([sums[at], sums[at + 1]]);
                values[i][n] = F::Stored::to_f32_pair(rounded);
            });
        });
        if is_sum(&reduced) {
            self.store_reduced(&reduced, values, |a, b| a + b);
        } else {
            unroll!(8, |n| {
                unroll!(2, |i| {
                    values[i][n] = values[i][n].map(|value| value * reduced.sign);
                });
            });
            self.store_reduced(&reduced, values, math::max_nan);
        }
    }

    /// Reduces the pixels of the windows with `combine`, and stores the results to shared memory.
    #[inline(always)]
    unsafe fn store_reduced(
        &self,
        reduced: &ReducedResults,
        mut values: Values,
        combine: impl Fn(f32, f32) -> f32,
    ) {
        let log_pitch = opaque::to_compiler(self.g.tile_pitch).trailing_zeros();
        let (log_rows, log_columns) = (reduced.log_rows, reduced.log_columns);
        // The bits of an octet's index that belong to a window's rows.
        let of_rows = ((1 << log_rows) - 1) << (log_pitch - LOG_OCTET);
        unroll!(3, |bit| {
            if of_rows & 1 << bit != 0 {
                unroll!(8, |n| {
                    if n & 1 << bit == 0 {
                        unroll!(2, |i| {
                            let [a, b] = [values[i][n], values[i][n | 1 << bit]];
                            values[i][n] = [combine(a[0], b[0]), combine(a[1], b[1])];
                        });
                    }
                });
            }
        });
        if log_columns > 0 {
            unroll!(8, |n| {
                unroll!(2, |i| {
                    let [a, b] = values[i][n];
                    values[i][n][0] = combine(a, b);
                });
            });
        }
        // If all of the warp's filters are one set, a lane's two filters are combined.
        let is_one_row = reduced.log_filters > LOG_ROWS_OF_SET;
        if is_one_row {
            unroll!(8, |n| {
                let [a, b] = [values[0][n], values[1][n]];
                values[0][n] = [combine(a[0], b[0]), combine(a[1], b[1])];
            });
        }
        let lane = opaque::to_compiler(self.lane);
        if log_rows + log_columns == 0 {
            // Without the branches that follow.
            let places = self.window_rows().of_lane(lane);
            unroll!(8, |n| {
                places.store(0, n, values[0][n]);
            });
            if !is_one_row {
                unroll!(8, |n| {
                    places.store(1, n, values[1][n]);
                });
            }
            return;
        }
        let rows = self.window_rows().0;
        let in_octet = 2 * (lane % 4);
        let from = lane / 4 * Rows::<f32>::PITCH + (in_octet >> log_columns);
        // The first of the lanes that share a window stores its value.
        let stores = in_octet & ((1 << log_columns) - 1) == 0;
        unroll!(8, |n| {
            if of_rows & n as u32 == 0 {
                unroll!(2, |i| {
                    unroll!(2, |bit| {
                        if log_columns > bit as u32 + 1 {
                            let value = values[i][n][0];
                            let lanes = 1 << bit;
                            let (other, _) =
                                warp::warp_shuffle_xor(warp::ALL_LANES, value, lanes, WARP_THREADS);
                            values[i][n][0] = combine(value, other);
                        }
                    });
                });
                let pixel = 8 * n as u32;
                let row = pixel >> (log_pitch + log_rows) << log_pitch;
                let column = pixel & ((1 << log_pitch) - 1);
                let at = from + ((row + column) >> log_columns);
                unroll!(2, |i| {
                    if stores && !(is_one_row && i == 1) {
                        let at = at + ROW_FILTERS * i as u32 * Rows::<f32>::PITCH;
                        if log_columns == 0 {
                            rows.store_vec(at, values[i][n]);
                        } else {
                            rows.store(at, values[i][n][0]);
                        }
                    }
                });
            }
        });
    }
}

/// The binary logarithm of the pixels of an octet.
const LOG_OCTET: u32 = 3;
