//! The epilogue of the second pass: normalise, clamp, multiply, and the maximum over the filters.

use cuda_std::global::GlobalMut;
use cuda_std::shared::Shared;
use cuda_std::{GpuFloat, Storage, math, warp};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    OUT_WIDTH, OneLaunch3dGeometry,
};

use super::item::{Column, Epilogue, exchange};

/// The constants that map a filter's accumulator to its candidate for the maximum.
///
/// `m` multiplies before the norm and after the clamp. With `y` the convolution,
/// `norm(m * y) = sign(m) * (y - mean) / sqrt(var + eps / m^2)`, so `m * norm(m * y)` is
/// `m^2 * (y - mean) / sqrt(m^2 * var + eps)`: one FMA. The bounds, multiplied by `m`, are swapped
/// where `m` is negative. And since the lower bound lies below the upper, it can be
/// applied after the maximum, once for all filters.
#[derive(Clone, Copy)]
pub(super) struct Constants {
    /// Factor of an accumulator.
    pub(super) factor: f32,
    /// Summand.
    pub(super) added: f32,
    /// The larger bound.
    pub(super) upper: f32,
    /// The smaller bound.
    pub(super) lower: f32,
}

impl Constants {
    /// Constants of a filter whose accumulators, `scale` times too large, have this sum and this sum of
    /// squares. `finite` tells whether all parameters of the filter are finite.
    #[inline(always)]
    pub(super) fn of_sums(
        g: &OneLaunch3dGeometry,
        [sum, squares]: [f64; 2],
        scale: f64,
        m: f32,
        finite: bool,
    ) -> Self {
        let mean = sum * g.count_reciprocal;
        let variance = squares * g.count_reciprocal - mean * mean;
        // Rounding may make it slightly negative; NaN stays.
        let variance = if variance < 0.0 { 0.0 } else { variance };
        Self::new(g, mean, variance, scale, m, finite)
    }

    /// Stores the constants of filter `k` in `table`: `[factor, added, upper, lower][filter]`.
    #[inline(always)]
    pub(super) unsafe fn store(&self, table: Shared<f32>, k: u32) {
        table.store(k, self.factor);
        table.store(16 + k, self.added);
        table.store(32 + k, self.upper);
        table.store(48 + k, self.lower);
    }

    /// Constants of a filter whose accumulators, `scale` times too large, have `mean` and `variance`.
    #[inline(always)]
    fn new(
        g: &OneLaunch3dGeometry,
        mean: f64,
        variance: f64,
        scale: f64,
        m: f32,
        finite: bool,
    ) -> Self {
        let nan_bound = g.min.is_nan() || g.max.is_nan();
        let mut constants = if m == 0.0 {
            // `m` is 0: the norm of zeros is 0, or NaN where eps is 0.
            let zero = if g.eps > 0.0 { 0.0 } else { f32::NAN };
            let clamped = math::min_nan(math::max_nan(zero, g.min), g.max);
            Self {
                factor: 0.0,
                added: clamped * m,
                upper: f32::INFINITY,
                lower: f32::NEG_INFINITY,
            }
        } else {
            let square = f64::from(m) * f64::from(m);
            let factor = square / GpuFloat::sqrt(square * variance + g.eps * scale * scale);
            // With min above max, a clamp gives max.
            let min = if g.min > g.max { g.max } else { g.min };
            let (a, b) = (min * m, g.max * m);
            Self {
                factor: factor as f32,
                added: (-factor * mean) as f32,
                upper: math::max_nan(a, b),
                lower: math::min_nan(a, b),
            }
        };
        if nan_bound || !finite || !mean.is_finite() {
            constants.added = f32::NAN;
        }
        constants
    }
}

/// The largest of the lower bounds in `table`.
#[inline(always)]
pub(super) unsafe fn largest_lower(table: Shared<f32>) -> f32 {
    let mut lower = f32::NEG_INFINITY;
    let mut k = 0;
    while k < 16 {
        lower = math::max_nan(lower, table.load(48 + k));
        k += 1;
    }
    lower
}

/// Writes the maximum over all filters.
pub(super) struct Maximum<T> {
    y: GlobalMut<T>,
    constants: [Constants; 4],
    lower: f32,
    pending: [f32; 2],
    at: u32,
    valid: bool,
}

impl<T: Storage> Maximum<T> {
    /// Loads the constants of this lane's filters from `table`.
    #[inline(always)]
    pub(super) unsafe fn new(y: GlobalMut<T>, table: Shared<f32>) -> Self {
        let quad_lane = warp::lane_id() % 4;
        let constants = |i: u32| {
            let k = i / 2 * 8 + 2 * quad_lane + i % 2;
            Constants {
                factor: table.load(k),
                added: table.load(16 + k),
                upper: table.load(32 + k),
                lower: table.load(48 + k),
            }
        };
        let constants = [constants(0), constants(1), constants(2), constants(3)];
        Self {
            y,
            constants,
            lower: largest_lower(table),
            pending: [0.0; 2],
            at: 0,
            valid: false,
        }
    }

    /// The largest of the lane's four filters, below their upper bounds.
    #[inline(always)]
    fn largest(&self, values: [f32; 4]) -> f32 {
        let candidate = |i: usize| {
            let c = &self.constants[i];
            math::min_nan(math::fma(values[i], c.factor, c.added), c.upper)
        };
        let low = math::max_nan(candidate(0), candidate(1));
        math::max_nan(low, math::max_nan(candidate(2), candidate(3)))
    }
}

impl<T: Storage> Epilogue for Maximum<T> {
    #[inline(always)]
    unsafe fn start(&mut self, g: &OneLaunch3dGeometry, rows: [u32; 2], column: u32) {
        let quad_lane = warp::lane_id() % 4;
        let row = if quad_lane < 2 { rows[0] } else { rows[1] };
        self.valid = row < g.out_rows;
        self.at = row * OUT_WIDTH + column + quad_lane % 2;
    }

    /// Two columns and two rows make four values, each the maximum over a lane's filters. The
    /// four lanes of a quad exchange them so that each ends with one value, over all filters:
    /// row `quad + 8 * (quad_lane / 2)`, the earlier column for even lanes.
    #[inline(always)]
    unsafe fn column<const I: usize>(&mut self, column: &Column) {
        let [[a0, a1, a2, a3], [b0, b1, b2, b3]] = *column;
        let now = [
            self.largest([a0, a1, b0, b1]),
            self.largest([a2, a3, b2, b3]),
        ];
        if I.is_multiple_of(2) {
            self.pending = now;
            return;
        }
        let lane = warp::lane_id();
        let before = self.pending;
        let keep = |bit: u32, low: f32, high: f32| {
            let [kept, received] = exchange(lane, bit, low, high);
            math::max_nan(kept, received)
        };
        let rows = [keep(1, before[0], now[0]), keep(1, before[1], now[1])];
        let value = math::max_nan(keep(2, rows[0], rows[1]), self.lower);
        if self.valid {
            self.y.store(self.at as usize + I - 1, T::from_f32(value));
        }
    }

    #[inline(always)]
    unsafe fn finish(&mut self, _g: &OneLaunch3dGeometry, _rows: [u32; 2]) {}
}
