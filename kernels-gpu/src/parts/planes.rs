//! Norm and scale (or PReLU) parameters of the planes that a block touches, in shared memory.
//!
//! One thread computes a plane's parameters (mean, factor, bias, scale or slope) once for the block. The
//! other threads load them as one 16-byte vector.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::shared::{self, Shared};
use cuda_std::{math, thread};
use launch_config::norm::{NormGeometry, PARTIAL_ELEMENTS, PLANE_ELEMENTS};
use launch_config::{AffineType, Presence};

use crate::parts::index::{div_rem, div_rem_u64};
use crate::parts::map::{PlaneMap, is_not_infinite, multiply};
use crate::parts::moments::{self, Moments};

/// The parameter tensors of a norm and of the scales before and after it. All but `partials` may be null.
/// `weight` and `bias` have the geometry's `affine_type`.
///
/// `before` has factors that multiply each channel before the norm; they are folded into the norm's factor.
/// Mean and variance are then those of the unscaled values:
/// `norm(m x) = (x - mean) * [m / sqrt(m² variance + eps)]`, for any `m`, including 0.
#[derive(Clone, Copy)]
pub(crate) struct NormTensors<T> {
    pub(crate) partials: *const f32,
    pub(crate) before: *const T,
    pub(crate) weight: *const T,
    pub(crate) bias: *const T,
    pub(crate) scale: *const T,
    pub(crate) behind: Behind,
}

/// The application of `scale` after the norm: factors or PReLU slopes.
#[derive(Clone, Copy)]
pub(crate) struct Behind {
    /// Values above this bound are not scaled. It is infinity for factors and 0 for slopes.
    pub(crate) multiplied_to: f32,
    /// Stride from a channel's value to the next channel's: 1, or 0 if all channels share one.
    pub(crate) step: u32,
}

impl Behind {
    /// A factor for each channel.
    pub(crate) const FACTORS: Self = Self {
        multiplied_to: f32::INFINITY,
        step: 1,
    };
}

/// Loads element `at` of a norm's weight or bias, which has `len` elements of f32 or of `T`, as `of` says.
///
/// # Safety
/// `values` has `len` elements of that type.
#[inline(always)]
pub(crate) unsafe fn affine<T: Storage>(
    values: *const T,
    len: usize,
    at: usize,
    of: AffineType,
) -> f32 {
    if size_of::<T>() < size_of::<f32>() && of.is_f32() {
        Global::new(values.cast::<f32>(), len).load_readonly(at)
    } else {
        Global::new(values, len).load_readonly(at).to_f32()
    }
}

/// Parameters of one plane.
#[derive(Clone, Copy)]
pub(crate) struct PlaneParams {
    mean: f32,
    factor: f32,
    bias: f32,
    pub(crate) scale: f32,
}

impl PlaneParams {
    /// `(x - mean) * (rstd * weight) + bias`
    #[inline(always)]
    pub(crate) fn norm(self, x: f32) -> f32 {
        math::fma(x - self.mean, self.factor, self.bias)
    }
}

/// The parameters of consecutive planes.
#[derive(Clone, Copy)]
pub(crate) struct Planes {
    staged: Shared<f32>,
    multiplied_to: f32,
}

impl Planes {
    /// Computes the parameters of `count` planes, from plane `first` on, into dynamic shared memory. All
    /// threads meet at one barrier, and at one before it if statistics are split.
    ///
    /// # Safety
    /// All threads of the block call it together, with equal arguments. The planes belong to rows of `g`, and
    /// `partials` is the statistics kernel's output for these. `weight` and `bias`, if `g` marks them as
    /// present, and `before` and `scale`, if they are not null, have `g.channels` elements; `scale` has one
    /// if its step is 0. `before` is null unless each row is one channel. The launch has `g.staged_bytes` of
    /// dynamic shared memory for `count` planes.
    #[inline(always)]
    pub(crate) unsafe fn stage<T: Storage>(
        g: &NormGeometry,
        tensors: NormTensors<T>,
        first: u64,
        count: u32,
    ) -> Self {
        let partials = Global::new(tensors.partials, g.partial_elements() as usize);
        let numbers = count * PLANE_ELEMENTS as u32;
        let staged = shared::dynamic::<f32>(0, numbers);
        let of_channel = |values: *const T, channel: u32| {
            let values = Global::new(values, g.channels as usize);
            values.load_readonly(channel as usize).to_f32()
        };
        // The factor of a row. With factors `before` the norm, `channel` is the row's only channel.
        let factor = |moments: Moments, channel: u32| {
            if tensors.before.is_null() {
                return moments.rstd(g.eps);
            }
            let m = of_channel(tensors.before, channel);
            m * math::rsqrt(math::fma(m * m, moments.variance(), g.eps))
        };

        // The number of splits is uniform over the launch. Each row is combined once, not once for each of
        // its planes.
        let combined = if g.splits == 1 {
            None
        } else {
            let (first_row, before) = div_rem_u64(first, g.row_channels as u64);
            let rows = div_rem(before as u32 + count - 1, g.row_channels).0 + 1;
            let bytes = numbers * size_of::<f32>() as u32;
            let combined = shared::dynamic::<f32>(bytes, rows * PARTIAL_ELEMENTS as u32);
            moments::for_each_row(partials, g, first_row, rows, |row, moments| {
                let at = row * PARTIAL_ELEMENTS as u32;
                let channel = if tensors.before.is_null() {
                    0
                } else {
                    div_rem_u64(first_row + row as u64, g.channels as u64).1 as u32
                };
                combined.store_vec(at, [moments.mean, factor(moments, channel)]);
            });
            thread::sync_threads();
            Some(combined)
        };

        // Most threads have no plane and skip the divisions.
        let mut plane = thread::thread_idx_x();
        if plane < count {
            let (first_row, before) = div_rem_u64(first, g.row_channels as u64);
            let first_channel = div_rem_u64(first, g.channels as u64).1 as u32;
            while plane < count {
                let row = div_rem(before as u32 + plane, g.row_channels).0;
                let channel = div_rem(first_channel + plane, g.channels).1;
                let [mean, rstd] = match combined {
                    Some(combined) => combined.load_vec(row * PARTIAL_ELEMENTS as u32),
                    None => {
                        let moments = moments::partial(partials, g, first_row + row as u64, 0);
                        [moments.mean, factor(moments, channel)]
                    }
                };
                let value = |exists: Presence, values: *const T, otherwise: f32| {
                    if exists.is_present() {
                        affine(values, g.channels as usize, channel as usize, g.affine_type)
                    } else {
                        otherwise
                    }
                };
                let weight = value(g.weight, tensors.weight, 1.0);
                let bias = value(g.bias, tensors.bias, 0.0);
                let scale = if tensors.scale.is_null() {
                    1.0
                } else {
                    of_channel(tensors.scale, channel * tensors.behind.step)
                };
                // A weight of 1 does not change the other factor.
                let at = plane * PLANE_ELEMENTS as u32;
                staged.store_vec(at, [mean, rstd * weight, bias, scale]);
                plane += thread::block_dim_x();
            }
        }
        thread::sync_threads();
        Self {
            staged,
            multiplied_to: tensors.behind.multiplied_to,
        }
    }
}

impl PlaneMap for Planes {
    type Params = PlaneParams;

    #[inline(always)]
    unsafe fn params(&self, plane: u32) -> PlaneParams {
        let at = plane * PLANE_ELEMENTS as u32;
        let [mean, factor, bias, scale] = self.staged.load_vec::<PLANE_ELEMENTS>(at);
        PlaneParams {
            mean,
            factor,
            bias,
            scale,
        }
    }

    #[inline(always)]
    fn apply(&self, params: PlaneParams, x: f32) -> f32 {
        multiply(params.norm(x), params.scale, self.multiplied_to)
    }

    #[inline(always)]
    fn extremes_decide(&self, params: PlaneParams) -> bool {
        is_not_infinite(params.factor) && is_not_infinite(params.scale)
    }
}
