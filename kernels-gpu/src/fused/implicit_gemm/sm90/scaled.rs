//! The final form of accumulators: scale, bias, and the epilogue of results without a norm.

use cuda_std::{math, opaque};
use launch_config::elementwise::Bounds;
use launch_config::implicit_gemm::{Epilogue, K_VECTOR_WORDS};

use super::super::fixup::judged;
use super::super::format::Format;
use super::super::results::{in_order, is_normal};
use super::TileEpilogue;
use super::results::{Results, is_without_norm};
use crate::parts::map::multiply;
use crate::parts::unroll::unroll;

impl<F: Format, const SUMS: usize, E: TileEpilogue> Results<'_, F, SUMS, E> {
    /// Undoes the scaling and adds the bias. Without a norm, also applies the epilogue up to the rounding,
    /// and returns whether a result needs the fix-up.
    #[inline(always)]
    pub(super) unsafe fn scale(&self, sums: &mut [f32; SUMS], input_descale: f32) -> bool {
        unroll!(2, |i| {
            let filter = self.lane / 4 + 8 * i as u32;
            let at = (self.filter + filter) * K_VECTOR_WORDS;
            let [bias, descale, gain, shift] = self.memory.channels.load_vec::<4>(at);
            let mut factor = descale * input_descale;
            if F::OPERANDS.scaled && !is_normal(factor) {
                let first;
                [first, factor] = in_order(descale, input_descale);
                each_of_row(sums, i, |sum| sum * first);
            }
            each_of_row(sums, i, |sum| judged::<F>(math::fma(sum, factor, bias)));
            if is_without_norm::<E>(&self.g) && self.epilogue().gain_and_shift.is_present() {
                each_of_row(sums, i, |value| math::fma(gain, value, shift));
            }
        });
        let mut seen = false;
        if is_without_norm::<E>(&self.g) {
            self.bound(sums);
            // A NaN has stayed NaN.
            unroll!(2, |i| {
                let mut seen_here = false;
                each_of_row(sums, i, |value| {
                    seen_here |= value.is_nan();
                    value
                });
                // Results of other filters are not written.
                let filter = self.lane / 4 + 8 * i as u32;
                seen |= seen_here && filter < self.filters;
            });
        }
        E::apply_list(self, sums);
        seen
    }

    /// The epilogue without a norm. Read each time; a kept value would take a register.
    #[inline(always)]
    fn epilogue(&self) -> Epilogue {
        let epilogue = self.output.without_norm.store.epilogue;
        let again = |value: f32| f32::from_bits(opaque::to_compiler(value.to_bits()));
        Epilogue {
            gain_and_shift: epilogue.gain_and_shift,
            slope: again(epilogue.slope),
            bounds: Bounds {
                min: again(epilogue.bounds.min),
                max: again(epilogue.bounds.max),
            },
        }
    }

    /// Applies the epilogue's slope and bounds. Each is a pass of its own, left out where it changes no
    /// value. NaN stays NaN.
    #[inline(always)]
    fn bound(&self, sums: &mut [f32; SUMS]) {
        let Epilogue { slope, bounds, .. } = self.epilogue();
        if slope != 1.0 {
            each(sums, |value| multiply(value, slope, 0.0));
        }
        if bounds.min != f32::NEG_INFINITY {
            each(sums, |value| math::max_nan(value, bounds.min));
        }
        if bounds.max != f32::INFINITY {
            each(sums, |value| math::min_nan(value, bounds.max));
        }
    }
}

/// Applies `f` to row `i` (one filter) of the first `HALF_SUMS` accumulators of a thread.
#[inline(always)]
fn each_of_row<const SUMS: usize>(sums: &mut [f32; SUMS], i: usize, mut f: impl FnMut(f32) -> f32) {
    unroll!(16, |n| {
        unroll!(2, |j| {
            let at = 4 * n + 2 * i + j;
            sums[at] = f(sums[at]);
        });
    });
}

/// Applies `f` to the first `HALF_SUMS` accumulators of a thread.
#[inline(always)]
fn each<const SUMS: usize>(sums: &mut [f32; SUMS], mut f: impl FnMut(f32) -> f32) {
    unroll!(2, |i| {
        each_of_row(sums, i, &mut f);
    });
}
