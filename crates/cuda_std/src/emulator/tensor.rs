//! Tensor core operations, by the fragment layouts of the PTX manual.

use std::fmt;

use super::tensor_sum::{self, Line};

/// The most input words of a lane.
const INPUTS: usize = 10;
/// Input words of the lanes of a warp.
pub(crate) type Inputs = [[u32; INPUTS]; 32];
pub(crate) type Outputs = [[u32; 4]; 32];

/// The operand type of an `mma.sync` of 16 rows and 8 columns with f32 accumulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// K = 8.
    Tf32,
    /// K = 16.
    F16,
    /// K = 16.
    Bf16,
}

impl Kind {
    /// The operand type's name in PTX.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tf32 => "m16n8k8_tf32",
            Self::F16 => "m16n8k16_f16",
            Self::Bf16 => "m16n8k16_bf16",
        })
    }
}

/// The value of a tf32 operand, without the lower 13 bits.
pub(crate) fn tf32(word: u32) -> f64 {
    f64::from(f32::from_bits(word & !0x1fff))
}

/// The values of the two halves of a word.
#[inline]
pub(crate) fn halves(kind: Kind, word: u32) -> [f64; 2] {
    let (low, high) = (half_bits(word, 0), half_bits(word, 1));
    match kind {
        Kind::Bf16 => [of_bf16(low), of_bf16(high)],
        Kind::F16 | Kind::Tf32 => [of_f16(low), of_f16(high)],
    }
}

/// Converts bf16 like `half`, but without the run-time check of processor features.
#[inline(always)]
fn of_bf16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// Converts f16 like `half`, but without the run-time check of processor features.
#[inline(always)]
fn of_f16(bits: u16) -> f64 {
    /// Fraction bits of an f64 beyond those of an f16.
    const SURPLUS: u32 = 52 - 10;
    const INFINITE: u64 = 0x7c00;
    /// 2 to the difference of the exponent biases of f64 and f16.
    const SCALE: f64 = f64::from_bits((1023 + 1023 - 15) << 52);
    let magnitude = u64::from(bits & 0x7fff);
    let sign = u64::from(bits >> 15) << 63;
    let value = if magnitude < INFINITE {
        (f64::from_bits(magnitude << SURPLUS) * SCALE).to_bits()
    } else {
        let quiet = u64::from(magnitude > INFINITE) << 51;
        0x7ff << 52 | magnitude << SURPLUS | quiet
    };
    f64::from_bits(sign | value)
}

/// Half `h` of a word.
fn half_bits(word: u32, h: usize) -> u16 {
    (word >> (16 * h)) as u16
}

/// `D = A * B + D`. The inputs of a lane are `d` (4 words), `a` (4), `b` (2).
pub(crate) fn multiply(kind: Kind, inputs: &Inputs, outputs: &mut Outputs) {
    match kind {
        Kind::Tf32 => multiply_lines::<8>(kind, inputs, outputs),
        Kind::F16 | Kind::Bf16 => multiply_lines::<16>(kind, inputs, outputs),
    }
}

/// [`multiply`] with the instruction's K as a constant.
fn multiply_lines<const K: usize>(kind: Kind, inputs: &Inputs, outputs: &mut Outputs) {
    let mut a = [Line::<K>::ZERO; 16];
    let mut b = [Line::<K>::ZERO; 8];
    for (lane, input) in inputs.iter().enumerate() {
        let (quad, quad_lane) = (lane / 4, lane % 4);
        let (words_a, words_b) = (&input[4..8], &input[8..10]);
        if kind == Kind::Tf32 {
            for (i, &word) in words_a.iter().enumerate() {
                a[quad + 8 * (i % 2)].set(quad_lane + 4 * (i / 2), tf32(word));
            }
            for (i, &word) in words_b.iter().enumerate() {
                b[quad].set(quad_lane + 4 * i, tf32(word));
            }
            continue;
        }
        for (i, &word) in words_a.iter().enumerate() {
            let line = &mut a[quad + 8 * (i % 2)];
            let [low, high] = halves(kind, word);
            line.set(2 * quad_lane + 8 * (i / 2), low);
            line.set(2 * quad_lane + 8 * (i / 2) + 1, high);
        }
        for (i, &word) in words_b.iter().enumerate() {
            let [low, high] = halves(kind, word);
            b[quad].set(2 * quad_lane + 8 * i, low);
            b[quad].set(2 * quad_lane + 8 * i + 1, high);
        }
    }
    for (lane, input) in inputs.iter().enumerate() {
        let (quad, quad_lane) = (lane / 4, lane % 4);
        for i in 0..4 {
            let (row, column) = (quad + 8 * (i / 2), 2 * quad_lane + i % 2);
            let sum = tensor_sum::add(f32::from_bits(input[i]), &a[row], &b[column]);
            outputs[lane][i] = sum.to_bits();
        }
    }
}

/// Distributes matrices of 8 rows of 16 bytes. Lane `8 * m + r` has row `r` of matrix `m` as 4 words.
pub(crate) fn load(count: u8, transposed: bool, rows: &Inputs, outputs: &mut Outputs) {
    for (lane, output) in outputs.iter_mut().enumerate() {
        for (matrix, word) in output.iter_mut().enumerate().take(usize::from(count)) {
            let row = |r: usize| &rows[8 * matrix + r];
            *word = if transposed {
                let column = lane / 4;
                let element = |r: usize| u32::from(half_bits(row(r)[column / 2], column % 2));
                element(2 * (lane % 4)) | element(2 * (lane % 4) + 1) << 16
            } else {
                row(lane / 4)[lane % 4]
            };
        }
    }
}

/// Transposes four matrices of 8 rows of 16 bytes. Each lane has one word of each matrix, as [`load`]
/// returns it. Lane `8 * m + r` gets row `r` of the transpose of matrix `m`.
pub(crate) fn transpose(words: &Inputs, rows: &mut Outputs) {
    for (lane, row) in rows.iter_mut().enumerate() {
        let (matrix, r) = (lane / 8, lane % 8);
        let element =
            |column: usize| u32::from(half_bits(words[4 * column + r / 2][matrix], r % 2));
        for (i, word) in row.iter_mut().enumerate() {
            *word = element(2 * i) | element(2 * i + 1) << 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    #[test]
    fn halves_have_the_values_that_half_gives_them() {
        for bits in 0..=u16::MAX {
            let of_f16 = f16::from_bits(bits).to_f64();
            assert_eq!(super::of_f16(bits).to_bits(), of_f16.to_bits(), "{bits:#x}");
            let of_bf16 = bf16::from_bits(bits).to_f64();
            assert_eq!(
                super::of_bf16(bits).to_bits(),
                of_bf16.to_bits(),
                "{bits:#x}"
            );
        }
    }
}
