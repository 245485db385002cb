//! Reproducible values: the same numbers on every machine, in every release, in any order.
//!
//! Element `i` of seed `s` depends on `s` and `i` alone (a counter through SplitMix64), so a full-size input need not be
//! stored: any part of it can be made where it is needed. Of a seed, the lower 32 bits count.

extern crate std;

/// SplitMix64's output for state `state`: Steele, Lea and Flood, *Fast splittable pseudorandom
/// number generators*, OOPSLA 2014.
#[must_use]
pub const fn splitmix64(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Element `index` of the sequence of `seed`: 24 random bits as a fraction in [0, 1), which is
/// exact in f32.
#[must_use]
pub const fn uniform(seed: u64, index: u64) -> f32 {
    let bits = splitmix64((seed << 32).wrapping_add(index)) >> 40;
    bits as f32 / (1 << 24) as f32
}

/// The same, in [-1, 1).
#[must_use]
pub const fn signed(seed: u64, index: u64) -> f32 {
    uniform(seed, index) * 2.0 - 1.0
}

/// A normally distributed value, mean 0 and deviation 1 (Box and Muller's transform).
#[must_use]
pub fn normal(seed: u64, index: u64) -> f32 {
    // 1 - u lies in (0, 1], so its logarithm is finite.
    let radius = (-2.0 * (1.0 - f64::from(uniform(seed, 2 * index))).ln()).sqrt();
    let angle = core::f64::consts::TAU * f64::from(uniform(seed, 2 * index + 1));
    (radius * angle.cos()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        // The generator adds its increment before mixing; these are its first outputs for seed 0.
        let increment = 0x9E37_79B9_7F4A_7C15_u64;
        let outputs = [0, 1, 2].map(|i: u64| splitmix64(increment.wrapping_mul(i)));
        assert_eq!(
            outputs,
            [
                0xE220_A839_7B1D_CDAF,
                0x6E78_9E6A_A1B9_65F4,
                0x06C4_5D18_8009_454F
            ]
        );
    }

    #[test]
    fn distributions_have_their_moments() {
        let moments = |value: fn(u64, u64) -> f32| {
            let values = || (0..100_000).map(|index| f64::from(value(1, index)));
            let mean = values().sum::<f64>() / 1e5;
            let square = values().map(|v| v * v).sum::<f64>() / 1e5;
            (mean, square)
        };
        let (mean, square) = moments(signed);
        assert!(mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01);
        let (mean, square) = moments(normal);
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02);
    }
}
