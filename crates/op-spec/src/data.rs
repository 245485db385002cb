//! Reproducible values: the same numbers on every machine, in every release, in any order.
//!
//! Element `i` of seed `s` depends on `s` and `i` alone (a counter through SplitMix64). A full-size input
//! need not be stored: any part of it can be computed where it is needed. Every bit of a seed counts. The
//! upper 32 bits mix the numbers of the lower 32 once more; seeds below 2^32 thus keep the numbers of older
//! versions, which ignored the upper bits.

extern crate std;

/// Returns SplitMix64's output for state `state`: Steele, Lea and Flood, *Fast splittable pseudorandom number
/// generators*, OOPSLA 2014.
#[must_use]
pub const fn splitmix64(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns element `index` of the sequence of `seed`: 24 random bits as a fraction in [0, 1), which is exact
/// in f32.
#[must_use]
pub const fn uniform(seed: u64, index: u64) -> f32 {
    let of_lower = splitmix64((seed << 32).wrapping_add(index));
    let bits = match seed >> 32 {
        0 => of_lower,
        upper => splitmix64(of_lower.wrapping_add(upper)),
    };
    (bits >> 40) as f32 / (1 << 24) as f32
}

/// Returns a value like [`uniform`], but in [-1, 1).
#[must_use]
pub const fn signed(seed: u64, index: u64) -> f32 {
    uniform(seed, index) * 2.0 - 1.0
}

/// Returns a normally distributed value, mean 0 and deviation 1 (Box and Muller's transform).
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
    fn every_bit_of_a_seed_counts() {
        let stream = |seed| [0, 1, 2, 3].map(|index| uniform(seed, index));
        let seeds = (0..64).map(|bit| 1 << bit).chain([0, u64::MAX]);
        let streams: std::vec::Vec<[f32; 4]> = seeds.map(stream).collect();
        for (index, one) in streams.iter().enumerate() {
            assert!(!streams[..index].contains(one), "{index}");
        }
    }

    /// Golden files and records contain these values.
    #[test]
    fn seeds_of_32_bits_give_the_values_that_they_always_gave() {
        for seed in [0, 1, 7, 1 << 31, u64::from(u32::MAX)] {
            for index in [0, 1, 5, 1 << 20, u64::from(u32::MAX)] {
                let bits = splitmix64((seed << 32) + index) >> 40;
                assert_eq!(uniform(seed, index), bits as f32 / 16_777_216.0);
            }
        }
        assert_eq!(uniform(7, 5), 16_320_057.0 / 16_777_216.0);
    }

    #[test]
    fn distributions_have_their_moments() {
        let moments = |seed, value: fn(u64, u64) -> f32| {
            let values = || (0..100_000).map(|index| f64::from(value(seed, index)));
            let mean = values().sum::<f64>() / 1e5;
            let square = values().map(|v| v * v).sum::<f64>() / 1e5;
            (mean, square)
        };
        for seed in [1, (1 << 32) + 1] {
            let (mean, square) = moments(seed, signed);
            assert!(mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01);
            let (mean, square) = moments(seed, normal);
            assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02);
        }
    }
}
