//! Filters, bias and multiplier: from global memory to operands in registers.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::{Storage, cp_async, math, thread, warp};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    BLOCK_THREADS, FILTER, FILTER_ELEMENTS, OUT_CHANNELS, OneLaunch3dGeometry, STAGING_WORDS,
};

use super::common;
use super::format::{Format, filter_word};
use super::item::{Filters, MAX_STEPS};
use super::survey::{self, PER_FILTER, SURVEYORS};
use crate::parts::prescale::prescale_of_finite;
use crate::parts::unroll::unroll;

/// Words of operands: four for each lane, horizontal tap and step, at most.
const OPERAND_WORDS: u32 = FILTER * 5 * 32 * 4;

const _: () = assert!(SURVEYORS * OUT_CHANNELS <= BLOCK_THREADS);
const _: () = assert!(OPERAND_WORDS + FILTER_ELEMENTS <= STAGING_WORDS);

/// The tensors of the filters: weight, bias and multiplier. In `staging`, the original weight follows the
/// operands.
#[derive(Clone, Copy)]
pub(super) struct FilterTensors<'a, F: Format> {
    /// Shared memory for the operands and the original weight.
    pub(super) staging: Shared<u32>,
    /// The common area.
    pub(super) words: Shared<u32>,
    /// The geometry.
    pub(super) g: &'a OneLaunch3dGeometry,
    /// The operand format.
    pub(super) format: core::marker::PhantomData<F>,
}

impl<F: Format> FilterTensors<'_, F> {
    #[inline(always)]
    fn filters(&self) -> Shared<F::Stored> {
        let words = FILTER_ELEMENTS * size_of::<F::Stored>() as u32 / 4;
        self.staging.slice(OPERAND_WORDS, words).cast()
    }

    #[inline(always)]
    fn channel(&self, at: u32) -> Shared<F::Stored> {
        let words = OUT_CHANNELS * size_of::<F::Stored>() as u32 / 4;
        self.words.slice(at, words).cast()
    }

    /// Starts to copy all parameters, four bytes at a time.
    #[inline(always)]
    pub(super) unsafe fn start(
        &self,
        weight: *const F::Stored,
        bias: *const F::Stored,
        multiplier: *const F::Stored,
    ) {
        let per_copy = 4 / size_of::<F::Stored>() as u32;
        let weight = Global::new(weight, FILTER_ELEMENTS as usize);
        let mut copy = thread::thread_idx_x();
        while copy < FILTER_ELEMENTS / per_copy {
            let at = copy * per_copy;
            cp_async::copy4(self.filters().addr(at), weight, at as usize);
            copy += BLOCK_THREADS;
        }
        let at = thread::thread_idx_x() * per_copy;
        if at < OUT_CHANNELS {
            let multiplier = Global::new(multiplier, OUT_CHANNELS as usize);
            cp_async::copy4(
                self.channel(common::MULTIPLIER).addr(at),
                multiplier,
                at as usize,
            );
            if self.g.bias.is_present() {
                let bias = Global::new(bias, OUT_CHANNELS as usize);
                cp_async::copy4(self.channel(common::BIAS).addr(at), bias, at as usize);
            }
        }
    }

    /// Finds each filter's scale (NaN if the filter is not finite), or, for 16-bit types, the sums of its
    /// channels.
    #[inline(always)]
    pub(super) unsafe fn scale(&self) {
        let floats = self.words.cast::<f32>();
        let (k, first) = (
            thread::thread_idx_x() / SURVEYORS,
            thread::thread_idx_x() % SURVEYORS,
        );
        let (mut largest, mut sums) = (0.0, [0.0; 3]);
        if k < OUT_CHANNELS {
            let mut i = first;
            while i < PER_FILTER {
                let value = self.filters().load(k * PER_FILTER + i).to_f32();
                largest = math::max_nan(largest, math::abs(value));
                if !F::CENTRED {
                    survey::add(&mut sums, i, value);
                }
                i += SURVEYORS;
            }
        }
        warp::sync_warp(warp::ALL_LANES);
        let largest = survey::largest_of_surveyors(largest);
        if F::CENTRED {
            if k < OUT_CHANNELS && first == 0 {
                let finite = largest.is_finite();
                let scale = if finite {
                    prescale_of_finite(largest)
                } else {
                    f32::NAN
                };
                floats.store(common::SCALES + k, scale);
            }
        } else {
            let sums = survey::sums_of_surveyors(sums);
            if k < OUT_CHANNELS && first == 0 {
                // Not the scale, but NaN or infinite if the filter is.
                floats.store(common::SCALES + k, largest);
                survey::store_sums(sums, floats, common::FILTER_SUMS + 3 * k);
            }
        }
    }

    /// Lays out the operands.
    #[inline(always)]
    pub(super) unsafe fn lay_out(&self) {
        let floats = self.words.cast::<f32>();
        let mut at = thread::thread_idx_x();
        while at < FILTER * F::FILTER_STEPS * 128 {
            let (i, lane, set) = (at % 4, at / 4 % 32, at / 128);
            let (step, s) = (set % F::FILTER_STEPS, set / F::FILTER_STEPS);
            let k = i / 2 * 8 + lane / 4;
            let scale = if F::CENTRED {
                floats.load(common::SCALES + k)
            } else {
                1.0
            };
            let word = filter_word::<F>(self.filters(), [k, s], [step, i % 2, lane % 4], scale);
            self.staging.store(at, word);
            at += BLOCK_THREADS;
        }
    }

    /// This lane's operands.
    #[inline(always)]
    pub(super) unsafe fn operands(&self) -> Filters {
        let mut filters: Filters = [[[0; 4]; MAX_STEPS]; 3];
        let lane = warp::lane_id();
        unroll!(3, |s| {
            unroll!(8, |step| {
                if step < MAX_STEPS && (step as u32) < F::FILTER_STEPS {
                    let set = (s as u32) * F::FILTER_STEPS + step as u32;
                    filters[s][step] = self.staging.load_vec((set * 32 + lane) * 4);
                }
            });
        });
        filters
    }

    /// The start values of the accumulators of this lane's filters. For 16-bit types, which are not centred,
    /// they are minus the convolution of `means`, so that a large mean does not cost the squares their
    /// accuracy.
    #[inline(always)]
    pub(super) unsafe fn start_values(&self, means: [f32; 3]) -> [f32; 4] {
        if F::CENTRED {
            return [0.0; 4];
        }
        let sums = self
            .words
            .cast::<f32>()
            .slice(common::FILTER_SUMS, 3 * OUT_CHANNELS);
        let start = |i: u32| {
            let at = 3 * (i / 2 * 8 + 2 * (warp::lane_id() % 4) + i % 2);
            let first = math::fma(means[1], sums.load(at + 1), means[0] * sums.load(at));
            -math::fma(means[2], sums.load(at + 2), first)
        };
        [start(0), start(1), start(2), start(3)]
    }

    /// Multiplier and scale of filter `k`, and whether all its parameters are finite.
    #[inline(always)]
    pub(super) unsafe fn of_filter(&self, k: u32) -> (f32, f32, bool) {
        let multiplier = self.channel(common::MULTIPLIER).load(k).to_f32();
        let scale = self.words.cast::<f32>().load(common::SCALES + k);
        let bias = if self.g.bias.is_present() {
            self.channel(common::BIAS).load(k).to_f32()
        } else {
            0.0
        };
        let finite = multiplier.is_finite() && scale.is_finite() && bias.is_finite();
        (multiplier, scale, finite)
    }
}
