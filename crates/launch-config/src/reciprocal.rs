//! Division by a divisor that is known before the launch.
//!
//! A division takes about twenty instructions. Division by a known divisor is a product with its reciprocal,
//! rounded up, and two more instructions. Let `2^shift >= divisor` and
//! `factor = floor(2^(31 + shift) / divisor) + 1`. The product `factor * divisor` then exceeds
//! `2^(31 + shift)` by at most `divisor <= 2^shift`. For `value < 2^31`, `value * factor / 2^(31 + shift)`
//! therefore exceeds `value / divisor` by less than `1 / divisor`, and no integer is between them.

/// A divisor with its reciprocal in fixed point.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reciprocal {
    /// The divisor.
    pub divisor: u32,
    factor: u32,
    shift: u32,
}

impl Reciprocal {
    /// The largest divisor, and the exclusive bound of the dividend.
    pub const LIMIT: u32 = 1 << 31;

    /// Returns the reciprocal of `divisor`, clamped to the range from 1 to [`Self::LIMIT`].
    pub const fn of(divisor: u32) -> Self {
        let divisor = match divisor {
            0 => 1,
            1..=Self::LIMIT => divisor,
            _ => Self::LIMIT,
        };
        let shift = divisor.next_power_of_two().trailing_zeros();
        Self {
            divisor,
            factor: ((1 << (31 + shift)) / divisor as u64 + 1) as u32,
            shift,
        }
    }

    /// Returns the fields as words, for storage in shared memory.
    #[inline(always)]
    pub const fn to_words(self) -> [u32; 3] {
        [self.divisor, self.factor, self.shift]
    }

    /// Returns the reciprocal from the words of [`Self::to_words`].
    #[inline(always)]
    pub const fn from_words([divisor, factor, shift]: [u32; 3]) -> Self {
        Self {
            divisor,
            factor,
            shift,
        }
    }

    /// Returns quotient and remainder of `value`, which is less than [`Self::LIMIT`]. `high_word` computes
    /// the upper 32 bits of a product, for which a device has an instruction.
    #[inline(always)]
    pub fn div_rem(self, value: u32, high_word: impl FnOnce(u32, u32) -> u32) -> (u32, u32) {
        // The upper word of twice the value's product is the product shifted by 31 bits.
        let quotient = high_word(value.wrapping_add(value), self.factor) >> self.shift;
        let multiple = quotient.wrapping_mul(self.divisor);
        (quotient, value.wrapping_sub(multiple))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_limit_is_divided() {
        let high_word = |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32;
        let powers = (0..32).map(|bit| 1u32 << bit);
        let near = powers.flat_map(|power| [power - 1, power, power + 1]);
        let divisors = near.chain([3969, 961, 25, 641, 6_700_417, 0x5555_5555]);
        for divisor in divisors.filter(|&divisor| (1..=Reciprocal::LIMIT).contains(&divisor)) {
            let reciprocal = Reciprocal::of(divisor);
            assert_eq!(reciprocal.divisor, divisor);
            let last = Reciprocal::LIMIT - 1;
            let multiples =
                [1, 2, 3, 1000, 65_537, last / divisor].map(|n| divisor.saturating_mul(n));
            let ends = multiples
                .into_iter()
                .flat_map(|end| [end.saturating_sub(1), end, end.saturating_add(1)]);
            for value in ends
                .chain([0, 1, last - 1, last])
                .filter(|&value| value <= last)
            {
                let wanted = (value / divisor, value % divisor);
                assert_eq!(
                    reciprocal.div_rem(value, high_word),
                    wanted,
                    "{value} / {divisor}"
                );
            }
        }
    }
}
