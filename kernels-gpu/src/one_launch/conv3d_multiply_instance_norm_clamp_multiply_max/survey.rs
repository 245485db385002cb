//! The survey of the filters: the largest magnitude, and the sums of the channels.

use cuda_std::math;
use cuda_std::shared::Shared;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FILTER_ELEMENTS, IN_CHANNELS, OUT_CHANNELS,
};

use crate::parts::lanes::{of_lanes, sum_of_lanes};
use crate::parts::unroll::unroll;

/// Elements of one filter, and of one channel of a filter.
pub(super) const PER_FILTER: u32 = FILTER_ELEMENTS / OUT_CHANNELS;
pub(super) const PER_CHANNEL: u32 = PER_FILTER / IN_CHANNELS;

/// Lanes that survey one filter.
pub(super) const SURVEYORS: u32 = 16;

/// Adds element `i` of the filter to the sum of its channel.
#[inline(always)]
pub(super) fn add(sums: &mut [f32; 3], i: u32, value: f32) {
    let channel = i / PER_CHANNEL;
    unroll!(3, |c| {
        sums[c] += if channel == c as u32 { value } else { 0.0 };
    });
}

/// The largest magnitude of the filter, over its surveying lanes; NaN if one is NaN.
///
/// # Safety
/// All lanes of the warp make this call together.
#[inline(always)]
pub(super) unsafe fn largest_of_surveyors(largest: f32) -> f32 {
    of_lanes::<SURVEYORS, f32>(largest, math::max_nan)
}

/// The sums of the filter's channels, over its surveying lanes.
///
/// # Safety
/// As for [`largest_of_surveyors`].
#[inline(always)]
pub(super) unsafe fn sums_of_surveyors([a, b, c]: [f32; 3]) -> [f32; 3] {
    [
        sum_of_lanes::<SURVEYORS>(a),
        sum_of_lanes::<SURVEYORS>(b),
        sum_of_lanes::<SURVEYORS>(c),
    ]
}

/// Stores the sums of a filter's channels from word `at` on.
#[inline(always)]
pub(super) unsafe fn store_sums(sums: [f32; 3], floats: Shared<f32>, at: u32) {
    unroll!(3, |c| {
        floats.store(at + c as u32, sums[c]);
    });
}
