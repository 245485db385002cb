//! Reductions over the lanes of a warp.

use core::ops::Add;

use cuda_std::warp::{self, WarpShuffleValue};
use launch_config::WARP_THREADS;

/// Combines the values of `LANES` neighbouring lanes by a butterfly: each lane with the one `LANES / 2` away,
/// and so on down to its neighbour. All lanes get the same result.
///
/// # Safety
/// All lanes of the warp call it together; `LANES` is a power of two up to 32.
#[inline(always)]
pub(crate) unsafe fn of_lanes<const LANES: u32, T: WarpShuffleValue + Copy>(
    value: T,
    combine: impl Fn(T, T) -> T,
) -> T {
    let mut all = value;
    let mut distance = LANES / 2;
    while distance > 0 {
        let (other, _) = warp::warp_shuffle_xor(warp::ALL_LANES, all, distance, WARP_THREADS);
        all = combine(all, other);
        distance /= 2;
    }
    all
}

/// [`of_lanes`] with addition.
///
/// # Safety
/// As for [`of_lanes`].
#[inline(always)]
pub(crate) unsafe fn sum_of_lanes<const LANES: u32>(value: f32) -> f32 {
    of_lanes::<LANES, f32>(value, |a, b| a + b)
}

/// Sums over the four lanes of a quad, neighbours first.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
pub(crate) unsafe fn sum_of_quad<T: WarpShuffleValue + Copy + Add<Output = T>>(value: T) -> T {
    let sum = value + warp::warp_shuffle_xor(warp::ALL_LANES, value, 1, WARP_THREADS).0;
    sum + warp::warp_shuffle_xor(warp::ALL_LANES, sum, 2, WARP_THREADS).0
}
