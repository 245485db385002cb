//! Powers of two that scale f32 values into f16's range.

/// The largest biased exponent of a finite f32, twice that of 1.
const MOST: u32 = 254;

/// The exponent that the largest magnitude is scaled to.
const TARGET: u32 = 10;

/// Returns the power of two that scales `largest` into `2^10 .. 2^11`, or as close as an f32 gets. It is 1
/// for 0, and an arbitrary power for infinity and NaN.
#[inline(always)]
pub(crate) fn prescale_of_finite(largest: f32) -> f32 {
    let exponent = largest.to_bits() >> 23;
    let wanted = (MOST + TARGET - exponent.min(MOST + TARGET - 1)).clamp(1, MOST - 1);
    if largest == 0.0 {
        1.0
    } else {
        f32::from_bits(wanted << 23)
    }
}

/// Returns the power of [`prescale_of_finite`] and its reciprocal. Both are 1 for 0, infinity and NaN.
#[inline(always)]
pub(crate) fn prescale_for(largest: f32) -> [f32; 2] {
    let exponent = largest.to_bits() >> 23;
    let usable = largest > 0.0 && exponent <= MOST;
    // The exponents of both powers stay those of normal numbers.
    let wanted = (MOST + TARGET - exponent.min(MOST + 1)).clamp(1, MOST - 1);
    if usable {
        [
            f32::from_bits(wanted << 23),
            f32::from_bits((MOST - wanted) << 23),
        ]
    } else {
        [1.0, 1.0]
    }
}

/// Returns the exact reciprocal of such a power of two.
#[inline(always)]
pub(crate) fn reciprocal(power: f32) -> f32 {
    f32::from_bits((MOST << 23) - power.to_bits())
}
