//! The output of a thread of the rolling convolution.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::math;
use cuda_std::shared::Shared;
use launch_config::depthwise::PARAMETER_ROWS;
use launch_config::depthwise::rolling::{PITCH, RUN};
use launch_config::elementwise::Bounds;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue, RoundedFunction};

use super::{MAX_INPUTS, MAX_KEPT_FILTER, RunValues, Taps};
use crate::parts::map::clamp;
use crate::parts::pair::Pair;
use crate::parts::pointwise::{hardswish, silu};
use crate::parts::store::sloped;
use crate::parts::unroll::unroll;

/// The output of a thread, and the epilogues of its sums.
pub(super) struct Output<T> {
    pub(super) y: GlobalMut<T>,
    pub(super) residual: Global<T>,
    /// Taps and parameters, from the thread's channels on.
    pub(super) filter: Shared<f32>,
    pub(super) epilogue: Epilogue,
    /// Whether channels have a gain and a shift.
    pub(super) has_gain: bool,
    pub(super) rounded: RoundedEpilogue,
    pub(super) channels: u32,
    pub(super) row_elements: usize,
    /// The first element of the next row.
    pub(super) offset: usize,
    /// One bit for each output of the run: `columns` of [`Input`](super::Input).
    pub(super) columns: u32,
}

impl<T: Pair> Output<T> {
    /// Returns the taps of the thread's channels, if they stay in registers.
    #[inline(always)]
    pub(super) unsafe fn taps<const R: usize>(&self) -> Taps {
        let mut taps: Taps = [[[0.0; 2]; MAX_KEPT_FILTER]; MAX_KEPT_FILTER];
        unroll!(5, |r| {
            unroll!(5, |s| {
                if R <= MAX_KEPT_FILTER && r < R && s < R {
                    taps[r][s] = self.filter.load_vec((r * R + s) as u32 * PITCH);
                }
            });
        });
        taps
    }

    /// Whether output `i` of the run is a column of the output.
    #[inline(always)]
    fn has(&self, i: usize) -> bool {
        self.columns >> (MAX_INPUTS + i) & 1 != 0
    }

    /// Applies the epilogues to the sums of the next row, writes the results, and advances to the row behind
    /// it.
    #[inline(always)]
    pub(super) unsafe fn write<const R: usize>(&mut self, mut values: RunValues) {
        let channels = self.channels as usize;
        let [bias, gain, shift]: [[f32; 2]; PARAMETER_ROWS as usize] =
            [0, 1, 2].map(|row| self.filter.load_vec(((R * R) as u32 + row) * PITCH));
        each(&mut values, |c, value| value + bias[c]);
        if self.has_gain {
            each(&mut values, |c, value| math::fma(gain[c], value, shift[c]));
        }
        let Epilogue { slope, bounds, .. } = self.epilogue;
        if slope != 1.0 {
            each(&mut values, |_, x| if x > 0.0 { x } else { x * slope });
        }
        if bounds != Bounds::NONE {
            each(&mut values, |_, x| clamp(bounds, x));
        }
        let adds = self.rounded.residual.is_present();
        if adds || self.rounded.function != RoundedFunction::NONE {
            values = values.map(|pair| T::to_f32_pair(T::from_f32_pair(pair)));
            match self.rounded.function {
                RoundedFunction::SILU => each(&mut values, |_, x| silu::<T>(x)),
                RoundedFunction::HARDSWISH => each(&mut values, |_, x| hardswish(x)),
                _ => {}
            }
        }
        if adds {
            let mut residuals = [T::ZERO; RUN];
            unroll!(4, |i| {
                if self.has(i) {
                    residuals[i] = T::load(self.residual, self.offset + channels * i);
                }
            });
            unroll!(4, |i| {
                let added = T::values(residuals[i]);
                unroll!(2, |c| {
                    values[i][c] = sloped(&self.rounded.after, values[i][c] + added[c]);
                });
            });
        }
        unroll!(4, |i| {
            if self.has(i) {
                T::store(self.y, self.offset + channels * i, values[i]);
            }
        });
        self.offset += self.row_elements;
    }
}

/// Applies `f` to each value and the index of its channel.
#[inline(always)]
fn each(values: &mut RunValues, f: impl Fn(usize, f32) -> f32) {
    unroll!(4, |i| {
        unroll!(2, |c| {
            values[i][c] = f(c, values[i][c]);
        });
    });
}
