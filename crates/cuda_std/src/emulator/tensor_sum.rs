//! How tensor cores add: they truncate, where everything else rounds.
//!
//! An instruction adds all its products and the old sum at once. Each term is brought to the exponent of the
//! largest one, with [`EXTRA_BITS`] more bits than f32's 23, and what lies below is cut off; the sum of what
//! is left is exact, and is cut off again to an f32. So a long chain of instructions drifts towards zero, by
//! half a unit in the last place of the sum for each of them on average, which rounding would not do.
//!
//! Measured on an H200 with `mma.sync.m16n8k16` f16, by products of powers of two beside a sum of 1 (what is
//! kept, and how many terms share an exponent), and on 4,000 sums of random products of mixed magnitudes, all
//! of which this model gives bit for bit. The exponent of a product is the sum of those of its factors,
//! whether their mantissas' product is below 2 or not. Taken over for bf16, tf32 and `wgmma`. Older
//! generations keep fewer bits, and add fewer products at once.

/// Bits that a term keeps below the last one of an f32 of the largest term's exponent.
const EXTRA_BITS: i16 = 2;

/// Bits of an f32 behind the first one.
const FRACTION_BITS: i16 = 23;

/// Bits of an f64 behind those that an f32 has.
const SURPLUS_BITS: u32 = 52 - FRACTION_BITS as u32;

/// Exponents of terms of which at least one is neither 0 nor beyond an f32.
const LEAST: i16 = -512;
const MOST: i16 = 128;

/// What an f64 adds to its exponent.
const BIAS: i16 = 1023;

/// An exponent below all others, and so is the sum of it and any but [`BEYOND`].
const NONE: i16 = -8000;

/// One above all others, the sum of it and the least one, too: 0 times infinity is not to be overlooked.
const BEYOND: i16 = 16_000;

/// Factors of the products that an instruction adds, which an f16, a bf16 or a tf32 holds: a row of A, or a
/// column of B.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<const K: usize> {
    values: [f64; K],
    exponents: [i16; K],
}

impl<const K: usize> Line<K> {
    pub(crate) const ZERO: Self = Self {
        values: [0.0; K],
        exponents: [NONE; K],
    };

    /// Puts a factor in its place.
    #[inline(always)]
    pub(crate) fn set(&mut self, k: usize, value: f64) {
        self.values[k] = value;
        self.exponents[k] = exponent(value);
    }
}

/// The exponent of a value that is far from the least ones of f64, [`NONE`] of 0, or [`BEYOND`] of what is
/// not finite.
#[inline(always)]
fn exponent(value: f64) -> i16 {
    match (value.to_bits() >> 52 & 0x7ff) as i16 {
        0 => NONE,
        0x7ff => BEYOND,
        biased => biased - BIAS,
    }
}

/// `2^exponent`, a normal number.
#[inline(always)]
fn power_of_two(exponent: i16) -> f64 {
    f64::from_bits((i64::from(exponent + BIAS) as u64) << 52)
}

/// `start` and the products, added as one instruction does. Kernels on tensor cores spend much of their time
/// here.
pub(crate) fn add<const K: usize>(start: f32, a: &Line<K>, b: &Line<K>) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { add_four_at_a_time(start, a, b) };
    }
    add_in_loops(start, a, b)
}

/// The same sum, to the bit, by wider instructions than all processors have.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_four_at_a_time<const K: usize>(start: f32, a: &Line<K>, b: &Line<K>) -> f32 {
    add_in_loops(start, a, b)
}

/// Loops of which the compiler makes vector instructions.
#[inline(always)]
fn add_in_loops<const K: usize>(start: f32, a: &Line<K>, b: &Line<K>) -> f32 {
    let start = f64::from(start);
    let mut largest = exponent(start);
    for k in 0..K {
        // No sum is more than twice `BEYOND`, or less than twice `NONE`.
        largest = largest.max(a.exponents[k].wrapping_add(b.exponents[k]));
    }
    // Infinities and NaN have the largest exponent there is, zeros the least.
    if !(LEAST..=MOST).contains(&largest) {
        return add_rounding(start, a, b);
    }
    let unit = largest - FRACTION_BITS - EXTRA_BITS;
    let scale = power_of_two(-unit);
    // Sums of every fourth term, each of at most `K / 4` rounded up.
    const { assert!(K <= 60) };
    let mut sums = [0_i32; 4];
    for k in 0..K {
        let product = a.values[k] * b.values[k];
        // SAFETY: factors are below 2 to their exponent + 1, so the product is below 2^(largest + 2), and
        // 2^27 units. The conversion cuts off.
        let units = unsafe { (product * scale).to_int_unchecked::<i32>() };
        // No more than 15 of them.
        sums[k % 4] = sums[k % 4].wrapping_add(units);
    }
    let [p, q, r, s] = sums;
    let sum = i64::from(p) + i64::from(q) + i64::from(r) + i64::from(s);
    let sum = (sum + (start * scale) as i64) as f64 * power_of_two(unit);
    f64::from_bits(sum.to_bits() >> SURPLUS_BITS << SURPLUS_BITS) as f32
}

/// Of terms that are zeros, or not all finite.
#[cold]
#[inline(never)]
fn add_rounding<const K: usize>(start: f64, a: &Line<K>, b: &Line<K>) -> f32 {
    (0..K).fold(start, |sum, k| sum + a.values[k] * b.values[k]) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `start` and these products.
    fn sum<const K: usize>(start: f32, products: [(f64, f64); K]) -> f32 {
        let (mut a, mut b) = (Line::<K>::ZERO, Line::<K>::ZERO);
        for (k, (of_a, of_b)) in products.into_iter().enumerate() {
            a.set(k, of_a);
            b.set(k, of_b);
        }
        add(start, &a, &b)
    }

    /// `first`, `count` times `other`, and zeros.
    fn and_zeros(first: (f64, f64), other: (f64, f64), count: usize) -> [(f64, f64); 17] {
        std::array::from_fn(|k| match k {
            0 => first,
            _ if k <= count => other,
            _ => (0.0, 0.0),
        })
    }

    /// `count` products of 2^-12 and 2^(12 - e) beside 1; what was measured.
    fn ulps(sign: f64, e: i16, count: usize) -> f64 {
        let product = (sign * power_of_two(-12), power_of_two(12 - e));
        let sum = sum(1.0, and_zeros((0.0, 0.0), product, count));
        (f64::from(sum) - 1.0) * power_of_two(24)
    }

    #[test]
    fn bits_below_the_second_extra_one_are_cut_off() {
        let counts = [1, 2, 3, 4, 8, 16];
        let measured = |sign: f64, e: i16| counts.map(|count| ulps(sign, e, count));
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
        let small = (power_of_two(-12), power_of_two(-13));
        let terms = |count| and_zeros((1.5, 1.5), small, count);
        assert_eq!(sum(0.0, terms(7)), 2.25);
        assert_eq!(sum(0.0, terms(8)), 2.25 + 0.5_f32.powi(22));
    }

    #[test]
    fn the_largest_terms_fit() {
        // The largest factors there are, of tf32.
        let factor = 2.0 - power_of_two(-10);
        for sign in [1.0, -1.0] {
            let exact = sign * (factor * factor * 16.0 + 1.0);
            let terms = [(sign * factor, factor); 16];
            assert_eq!(sum(sign as f32, terms), exact as f32);
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        assert_eq!(sum(1.0, [(f64::INFINITY, 1.0)]), f32::INFINITY);
        assert!(sum(1.0, [(f64::NAN, 1.0)]).is_nan());
        assert!(sum(f32::NEG_INFINITY, [(f64::INFINITY, 1.0)]).is_nan());
        assert_eq!(sum(f32::INFINITY, [(0.0, 1.0)]), f32::INFINITY);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(sum(1.0, [(0.0, value)]).is_nan());
            assert!(sum(1.0, [(2.0, 1.0), (0.0, value)]).is_nan());
        }
        assert_eq!(sum(0.0, [(0.0, 1.0)]), 0.0);
        assert_eq!(sum(-0.0, []).to_bits(), 1 << 31);
    }
}
