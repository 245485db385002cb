//! The additions of tensor cores, which truncate instead of rounding.
//!
//! An instruction adds all its products and the accumulator at once. Each term is aligned to the exponent of
//! the largest one, with [`EXTRA_BITS`] more bits than f32's 23, and lower bits are truncated. The sum of the
//! truncated terms is exact, and is truncated to an f32. So a long chain of instructions drifts towards zero,
//! by half an ulp of the sum for each of them on average. Rounding would not drift.
//!
//! Measured on an H200 with `mma.sync.m16n8k16` f16: by products of powers of two beside a sum of 1 (the bits
//! that are kept, and the terms that share an exponent), and by 4,000 sums of random products of mixed
//! magnitudes. The model reproduces all of these bit for bit. The exponent of a product is the sum of its
//! factors'
//! exponents, whether the product of the mantissas is below 2 or not. The same model is used for bf16, tf32
//! and `wgmma`. Older generations keep fewer bits, and add fewer products at once.

/// Bits of a term that are kept below the last bit of an f32 of the largest term's exponent.
const EXTRA_BITS: i16 = 2;

/// Fraction bits of an f32.
const FRACTION_BITS: i16 = 23;

/// Fraction bits of an f64 beyond those of an f32.
const SURPLUS_BITS: u32 = 52 - FRACTION_BITS as u32;

/// Range of the largest exponent if all terms are finite and one is not 0.
const LEAST: i16 = -512;
const MOST: i16 = 128;

/// Exponent bias of an f64.
const BIAS: i16 = 1023;

/// The exponent of 0. Its sum with any exponent but [`BEYOND`] is below all others, too.
const NONE: i16 = -8000;

/// The exponent of infinity and NaN. Its sum with any exponent, also [`NONE`], is above all others, so that 0
/// times infinity is found.
const BEYOND: i16 = 16_000;

/// Factors of an instruction's products, in f16, bf16 or tf32: a row of A, or a column of B.
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

    /// Sets a factor.
    #[inline(always)]
    pub(crate) fn set(&mut self, k: usize, value: f64) {
        self.values[k] = value;
        self.exponents[k] = exponent(value);
    }
}

/// The exponent of a value that is a normal f64; [`NONE`] for 0, [`BEYOND`] for values that are not finite.
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

/// `start` plus the products, with the truncation of one instruction. Kernels on tensor cores spend much of
/// their time here.
pub(crate) fn add<const K: usize>(start: f32, a: &Line<K>, b: &Line<K>) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { add_four_at_a_time(start, a, b) };
    }
    add_in_loops(start, a, b)
}

/// Computes the same sum, bit for bit, with vector instructions that not all processors have.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_four_at_a_time<const K: usize>(start: f32, a: &Line<K>, b: &Line<K>) -> f32 {
    add_in_loops(start, a, b)
}

/// Computes the sum in loops that the compiler vectorises.
#[inline(always)]
fn add_in_loops<const K: usize>(start: f32, a: &Line<K>, b: &Line<K>) -> f32 {
    let start = f64::from(start);
    let mut largest = exponent(start);
    for k in 0..K {
        // No sum is more than twice `BEYOND`, or less than twice `NONE`.
        largest = largest.max(a.exponents[k].wrapping_add(b.exponents[k]));
    }
    // Infinities and NaN have the largest exponent, zeros the smallest. Adding zeros to 0 leaves it
    // unchanged.
    if largest < LEAST && start.to_bits() == 0 {
        return 0.0;
    }
    if !(LEAST..=MOST).contains(&largest) {
        return add_rounding(start, a, b);
    }
    let unit = largest - FRACTION_BITS - EXTRA_BITS;
    let scale = power_of_two(-unit);
    // Four partial sums, each of every fourth term: at most `K / 4` terms, rounded up.
    const { assert!(K <= 60) };
    let mut sums = [0_i32; 4];
    for k in 0..K {
        let product = a.values[k] * b.values[k];
        // SAFETY: factors are below 2 to their exponent + 1, so the product is below 2^(largest + 2), and
        // 2^27 units. The conversion truncates.
        let units = unsafe { (product * scale).to_int_unchecked::<i32>() };
        // At most 15 terms.
        sums[k % 4] = sums[k % 4].wrapping_add(units);
    }
    let [p, q, r, s] = sums;
    let sum = i64::from(p) + i64::from(q) + i64::from(r) + i64::from(s);
    let sum = (sum + (start * scale) as i64) as f64 * power_of_two(unit);
    f64::from_bits(sum.to_bits() >> SURPLUS_BITS << SURPLUS_BITS) as f32
}

/// Computes the sum of terms that are all zeros, or not all finite.
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

    /// Returns the measured sum of 1 and `count` products of `2^-12` and `2^(12 - e)`, relative to 1.
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
        assert_eq!(sum(0.0, [(-1.0, 0.0); 2]).to_bits(), 0);
        assert_eq!(sum(-0.0, []).to_bits(), 1 << 31);
    }
}
