//! The power of two that scales f32 into f16's range.

/// The largest stored exponent of a finite f32; that of 1 is half of it.
const MOST: u32 = 254;

/// The exponent that the largest magnitude is scaled to.
const TARGET: u32 = 10;

/// The power of two that scales `largest` into `2^10 .. 2^11`, or as close as an f32 gets; 1 for 0, and any
/// power for infinity and NaN.
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

/// That power and its reciprocal; 1 for 0, and for what is not finite.
#[inline(always)]
pub(crate) fn prescale_for(largest: f32) -> [f32; 2] {
    let exponent = largest.to_bits() >> 23;
    let usable = largest > 0.0 && exponent <= MOST;
    // Of both the exponent stays that of a normal number.
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

/// The reciprocal of one of these powers, exactly.
#[inline(always)]
pub(crate) fn reciprocal(power: f32) -> f32 {
    f32::from_bits((MOST << 23) - power.to_bits())
}
