//! What lanes of a warp combine.

use core::ops::Add;

use cuda_std::warp::{self, WarpShuffleValue};
use launch_config::WARP_THREADS;

/// All values of `LANES` neighbouring lanes, combined by halves: each lane with the one `LANES / 2` away, and
/// so on down to its neighbour. The same in all of them.
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

/// The sum over `LANES` neighbouring lanes, as [`of_lanes`].
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn sum_of_lanes<const LANES: u32>(value: f32) -> f32 {
    of_lanes::<LANES, f32>(value, |a, b| a + b)
}

/// The sum over the four lanes of a quad: neighbours first.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
pub(crate) unsafe fn sum_of_quad<T: WarpShuffleValue + Copy + Add<Output = T>>(value: T) -> T {
    let sum = value + warp::warp_shuffle_xor(warp::ALL_LANES, value, 1, WARP_THREADS).0;
    sum + warp::warp_shuffle_xor(warp::ALL_LANES, sum, 2, WARP_THREADS).0
}
