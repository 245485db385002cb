//! How tensor cores add: they truncate, where everything else rounds.
//!
//! An instruction adds all its products and the old sum at once. Each term is brought to the exponent of the largest
//! one, with [`EXTRA_BITS`] more bits than f32's 23, and what lies below is cut off; the sum of what is left
//! is exact, and is cut off again to an f32. So a long chain of instructions drifts towards zero, by half a
//! unit in the last place of the sum for each of them on average, which rounding would not do.
//!
//! Measured on an H200 with `mma.sync.m16n8k16` f16, by products of powers of two beside a sum of 1 (what is kept, and
//! how many terms share an exponent), and on 4,000 sums of random products of mixed magnitudes, all of which this model
//! gives bit for bit. The exponent of a product is the sum of those of its factors, whether their mantissas'
//! product is below 2 or not. Taken over for bf16, tf32 and `wgmma`. Older generations keep fewer bits, and
//! add fewer products at once.

/// Bits that a term keeps below the last one of an f32 of the largest term's exponent.
const EXTRA_BITS: i32 = 2;

/// Bits of an f32 behind the first one.
const FRACTION_BITS: i32 = 23;

/// Bits of an f64 behind those that an f32 has.
const SURPLUS_BITS: u32 = 52 - FRACTION_BITS as u32;

/// Exponents of terms of which at least one is neither 0 nor beyond an f32.
const LEAST: i32 = -512;
const MOST: i32 = 128;

/// What an f64 adds to its exponent.
const BIAS: i32 = 1023;

/// An exponent below all others.
const NONE: i32 = -1 << 16;

/// One above all others, the sum of it and the least one, too: 0 times infinity is not to be overlooked.
const BEYOND: i32 = 1 << 20;

/// A factor of a product, which an f16, a bf16 or a tf32 holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factor {
    value: f64,
    exponent: i32,
}

impl Factor {
    pub(crate) const ZERO: Self = Self {
        value: 0.0,
        exponent: NONE,
    };
}

impl From<f64> for Factor {
    fn from(value: f64) -> Self {
        Self {
            value,
            exponent: exponent(value),
        }
    }
}

/// The exponent of a value that is far from the least ones of f64, [`NONE`] of 0, or [`BEYOND`] of what is not finite.
fn exponent(value: f64) -> i32 {
    match (value.to_bits() >> 52 & 0x7ff) as i32 {
        0 => NONE,
        0x7ff => BEYOND,
        biased => biased - BIAS,
    }
}

/// `2^exponent`, a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + BIAS) as u64) << 52)
}

/// `start` and the products, added as one instruction does.
pub(crate) fn add(start: f32, products: impl Iterator<Item = (Factor, Factor)> + Clone) -> f32 {
    let start = f64::from(start);
    let largest = products
        .clone()
        .map(|(a, b)| a.exponent + b.exponent)
        .fold(exponent(start), i32::max);
    let values = products.map(|(a, b)| a.value * b.value);
    // Infinities and NaN have the largest exponent there is, zeros the least.
    if !(LEAST..=MOST).contains(&largest) {
        return values.fold(start, |sum, product| sum + product) as f32;
    }
    let unit = largest - FRACTION_BITS - EXTRA_BITS;
    let scale = power_of_two(-unit);
    // A cast cuts off.
    let units = |value: f64| (value * scale) as i64;
    let sum: i64 = values.fold(units(start), |sum, product| sum + units(product));
    let sum = sum as f64 * power_of_two(unit);
    f64::from_bits(sum.to_bits() >> SURPLUS_BITS << SURPLUS_BITS) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` products of 2^-12 and 2^(12 - e) beside 1; what was measured.
    fn ulps(sign: f64, e: i32, count: usize) -> f64 {
        let product = (
            Factor::from(sign * power_of_two(-12)),
            Factor::from(power_of_two(12 - e)),
        );
        let sum = add(1.0, std::iter::repeat_n(product, count));
        (f64::from(sum) - 1.0) * power_of_two(24)
    }

    #[test]
    fn bits_below_the_second_extra_one_are_cut_off() {
        let counts = [1, 2, 3, 4, 8, 16];
        let measured = |sign: f64, e: i32| counts.map(|count| ulps(sign, e, count));
        assert_eq!(measured(1.0, 23), [2.0, 4.0, 6.0, 8.0, 16.0, 32.0]);
        assert_eq!(measured(1.0, 24), [0.0, 2.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(measured(1.0, 25), [0.0, 0.0, 0.0, 2.0, 4.0, 8.0]);
        assert_eq!(measured(1.0, 26), [0.0; 6]);
        assert_eq!(measured(-1.0, 24), [-1.0, -2.0, -3.0, -4.0, -8.0, -16.0]);
        assert_eq!(measured(-1.0, 25), [-1.0, -1.0, -2.0, -2.0, -4.0, -8.0]);
        assert_eq!(measured(-1.0, 26), [0.0; 6]);
    }

    #[test]
    fn terms_keep_their_bits_by_the_exponents_of_the_factors() {
        // 1.5 * 1.5 = 2.25, whose own exponent is 1 and its factors' 0.
        let square = (Factor::from(1.5), Factor::from(1.5));
        let small = (
            Factor::from(power_of_two(-12)),
            Factor::from(power_of_two(-13)),
        );
        let terms = |count| std::iter::once(square).chain(std::iter::repeat_n(small, count));
        assert_eq!(add(0.0, terms(7)), 2.25);
        assert_eq!(add(0.0, terms(8)), 2.25 + 0.5_f32.powi(22));
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let one = Factor::from(1.0);
        let product = |a: f64| std::iter::once((Factor::from(a), one));
        assert_eq!(add(1.0, product(f64::INFINITY)), f32::INFINITY);
        assert!(add(1.0, product(f64::NAN)).is_nan());
        assert!(add(f32::NEG_INFINITY, product(f64::INFINITY)).is_nan());
        assert_eq!(add(f32::INFINITY, product(0.0)), f32::INFINITY);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let nothing = (Factor::ZERO, Factor::from(f64::from(value)));
            assert!(add(1.0, std::iter::once(nothing)).is_nan());
            assert!(add(1.0, product(2.0).chain([nothing])).is_nan());
        }
        assert_eq!(add(0.0, product(0.0)), 0.0);
        assert_eq!(add(-0.0, std::iter::empty()).to_bits(), 1 << 31);
    }
}
