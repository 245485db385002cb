//! The NaN/Inf fix-up pass of reduced results.

use cuda_std::{Storage, opaque, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::HALF_PIXELS;
use launch_config::implicit_gemm::{K_VECTOR_WORDS, PixelShuffle, REDUCED_PIXELS, ReducedResults};

use super::super::format::Format;
use super::reduced::{Window, combined, factor_of, is_sum};
use super::results::{HALF_SUMS, Results};
use super::tile_epilogue::Reduced;

impl<F: Format, const SUMS: usize> Results<'_, F, SUMS, Reduced> {
    /// Recomputes the windows of the warp whose result is NaN from the original tensors, if a lane has `seen`
    /// a NaN.
    ///
    /// # Safety
    /// All lanes of the warp make this call, after the calls that write the windows.
    #[inline(always)]
    pub(super) unsafe fn fix_up_windows(&self, seen: bool) {
        let Some(reduced) = self.reduced() else {
            return;
        };
        // Other lanes may have written the results that a lane looks at.
        warp::sync_warp(warp::ALL_LANES);
        if !warp::warp_vote_any(warp::ALL_LANES, seen) {
            return;
        }
        let first = self.first_half * HALF_PIXELS;
        let end = first + (SUMS / HALF_SUMS) as u32 * HALF_PIXELS;
        let y = self.reduced_output(&reduced);
        let mut first = first;
        while first < end {
            opaque::not_unrolled();
            let mut number = opaque::to_compiler(self.lane);
            while number < self.windows(&reduced) {
                opaque::not_unrolled();
                if let Some(window) = self.window_of(&reduced, first, number)
                    && y.load(window.to).to_f32().is_nan()
                {
                    let value = self.recomputed_window(&reduced, &window);
                    y.store(window.to, F::Stored::from_f32(value));
                }
                number = opaque::to_compiler(number + WARP_THREADS);
            }
            first = opaque::to_compiler(first + REDUCED_PIXELS);
        }
    }

    /// Computes the result of a window from the original tensors.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn recomputed_window(&self, reduced: &ReducedResults, window: &Window) -> f32 {
        let g = &self.g;
        let [log_rows, log_columns] = [reduced.log_rows, reduced.log_columns];
        let [filters, rows, columns] = self.extents(reduced, window);
        let all = (filters << log_rows) << log_columns;
        let shuffle = PixelShuffle {
            shift: opaque::to_compiler(g.shuffle.shift),
            ..g.shuffle
        };
        let [z, p, q] = window.first;
        let (mut value, mut number) = (reduced.neutral, 0);
        while number < all {
            opaque::not_unrolled();
            let column = number & ((1 << log_columns) - 1);
            let of_rows = number >> log_columns;
            let row = of_rows & ((1 << log_rows) - 1);
            let filter = window.filter + (of_rows >> log_rows);
            if row < rows && column < columns {
                let at = (self.filter + filter) * K_VECTOR_WORDS;
                let result = self.output.without_norm.recomputed::<true>(
                    g,
                    &shuffle,
                    (self.place.sample, self.channel + filter),
                    [z, p + row, q + column],
                    self.memory.channels.load_vec::<4>(at),
                    None,
                );
                value = combined(is_sum(reduced), value, result.to_f32() * reduced.sign);
            }
            number = opaque::to_compiler(number + 1);
        }
        value * factor_of(reduced)
    }
}
