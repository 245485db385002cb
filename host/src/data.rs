//! Reproducible inputs: the same numbers on every machine, in every release, in any order.
//!
//! Element `i` of seed `s` depends on `s` and `i` alone (a counter through SplitMix64), so a
//! full-size input need not be stored: any part of it can be made where it is needed.

use ndarray::{Array, IntoDimension};

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

/// An array of uniform values in [0, 1), in row-major order.
///
/// # Panics
/// If the shape has more elements than memory addresses.
pub fn fill<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    generate(shape, |index| uniform(seed, index))
}

/// An array of uniform values in [-1, 1).
///
/// # Panics
/// If the shape has more elements than memory addresses.
pub fn signed<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    generate(shape, |index| uniform(seed, index) * 2.0 - 1.0)
}

/// An array of normally distributed values, mean 0 and deviation 1 (Box and Muller's transform).
///
/// # Panics
/// If the shape has more elements than memory addresses.
pub fn normal<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    generate(shape, |index| {
        // 1 - u lies in (0, 1], so its logarithm is finite.
        let radius = (-2.0 * (1.0 - f64::from(uniform(seed, 2 * index))).ln()).sqrt();
        let angle = std::f64::consts::TAU * f64::from(uniform(seed, 2 * index + 1));
        (radius * angle.cos()) as f32
    })
}

fn generate<E: IntoDimension>(shape: E, value: impl Fn(u64) -> f32) -> Array<f32, E::Dim> {
    let mut index = 0;
    Array::from_shape_simple_fn(shape.into_dimension(), || {
        index += 1;
        value(index - 1)
    })
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
    fn elements_do_not_depend_on_the_shape() {
        let flat = fill(7, 24);
        let cube = fill(7, (2, 3, 4));
        assert!(flat.iter().eq(cube.iter()));
        assert_eq!(flat[5], uniform(7, 5));
    }

    #[test]
    fn distributions_have_their_moments() {
        let moments = |values: &ndarray::Array1<f32>| {
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
            (mean, square / values.len() as f64)
        };
        let (mean, square) = moments(&signed(1, 100_000));
        assert!(mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01);
        let (mean, square) = moments(&normal(1, 100_000));
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02);
    }
}
