//! Numbers that kernels may treat in a way of their own, for the cases of every operator.
//!
//! A kernel changes its formula or its scale at *bounds*. It need not say where: [`at_bounds`] has all powers
//! of two, small whole numbers and the ends of every type's range, each with its neighbours in every type.
//! [`peaks`] are such numbers as the largest value of a sample or of a filter. [`special`] values come in an
//! order in which any two of them meet in windows of any shape.

use op_spec::data::splitmix64;

/// Powers of two, whole numbers up to 128, and the last numbers before f16's infinity.
fn bounds() -> impl Iterator<Item = f32> {
    let powers = (-149..128).map(|exponent| 2f64.powi(exponent) as f32);
    let whole = (1..=128u8).filter(|n| !n.is_power_of_two()).map(f32::from);
    powers.chain(whole).chain([65504.0, 65520.0])
}

/// A number, and those beside it in f32, f16 and bf16.
fn with_neighbours(bound: f32) -> [f32; 7] {
    let beside = |distance: f32| bound + bound * distance;
    let [below, above] = [f32::next_down, f32::next_up].map(|next| next(bound));
    let [of_f16, of_bf16] = [10, 7].map(|bits| f32::exp2(-bits as f32));
    [
        below,
        bound,
        above,
        beside(-of_f16 / 2.0),
        beside(of_f16),
        beside(-of_bf16 / 2.0),
        beside(of_bf16),
    ]
}

/// Numbers at bounds and beside them, of both signs, and both zeros.
#[must_use]
pub fn at_bounds() -> Vec<f32> {
    let magnitudes = bounds().flat_map(with_neighbours).chain([0.0, f32::MAX]);
    magnitudes.flat_map(|of| [of, -of]).collect()
}

/// Magnitudes between which kernels may choose different scales: powers of two, the numbers beside them in
/// f32, and the last ones that f16 rounds down. Close to 1 these are all powers of two.
#[must_use]
pub fn peaks() -> Vec<f32> {
    let near = -16..=17;
    let far = (-149..128).filter(|exponent| !near.contains(exponent) && exponent % 10 == 7);
    let powers = near
        .clone()
        .chain(far)
        .map(|exponent| 2f64.powi(exponent) as f32);
    let last_of_f16 = 2.0 - f32::exp2(-11.0);
    powers
        .flat_map(|power| {
            [
                power.next_down(),
                power,
                power.next_up(),
                power * last_of_f16,
            ]
        })
        .filter(|&peak| peak > 0.0)
        .collect()
}

/// Scales values so that the largest magnitude is `peak`.
pub fn scale_to<'a>(values: impl Iterator<Item = &'a mut f32>, peak: f32) {
    let mut values: Vec<&mut f32> = values.collect();
    let largest = values.iter().map(|v| v.abs()).fold(0.0, f32::max);
    for value in &mut values {
        let scaled = f64::from(**value) / f64::from(largest) * f64::from(peak);
        **value = scaled as f32;
    }
}

/// The special values, with ordinary ones of both signs.
const SPECIAL: [f32; 7] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    0.5,
    -1.5,
];

/// The special value at an index, in an order without a period. Other seeds give other orders. Half of the
/// fours have one value, so that there are windows of one value alone.
#[must_use]
pub fn special(seed: u64, index: usize) -> f32 {
    let drawn = |number: usize| splitmix64(seed << 32 | number as u64) as usize;
    let of_four = drawn(!(index / 4) & 0xffff_ffff);
    let number = match of_four % 2 {
        0 => of_four / 2,
        _ => drawn(index),
    };
    SPECIAL[number % SPECIAL.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bounds_have_neighbours_on_both_sides() {
        let all = at_bounds();
        for bound in [0.0625f32, 20.0, 64.0, 65504.0, f32::MIN_POSITIVE] {
            for wanted in [bound.next_down(), bound, bound.next_up()] {
                assert!(
                    all.contains(&wanted) && all.contains(&-wanted),
                    "{wanted:e}"
                );
            }
        }
        // The next f16, and the next bf16.
        assert!(all.contains(&64.0625) && all.contains(&64.5));
        assert!(all.iter().all(|number| number.is_finite()));
    }

    #[test]
    fn any_two_special_values_meet_in_rows_and_columns() {
        let width = 31;
        let values: Vec<u32> = (0..1000).map(|index| special(1, index).to_bits()).collect();
        for distance in [1, 2, width] {
            let pairs = values.iter().zip(&values[distance..]);
            let met: BTreeSet<(&u32, &u32)> = pairs.collect();
            assert_eq!(met.len(), SPECIAL.len() * SPECIAL.len(), "{distance} apart");
        }
    }

    #[test]
    fn a_peak_is_the_largest_magnitude() {
        let mut values = [0.25, -0.75, 0.5];
        scale_to(values.iter_mut(), 64f32.next_down());
        assert_eq!(values[1], -64f32.next_down());
        assert!(values.iter().all(|value| value.abs() < 64.0));
    }
}
