//! Operand formats.

#[cfg(hopper)]
use cuda_std::wgmma::{self, InFlight, MatrixDescriptor};
use cuda_std::{Storage, bf16, f16, mma};
#[cfg(hopper)]
use launch_config::implicit_gemm::MMA_BATCH_STEPS;
use launch_config::implicit_gemm::{BF16X3_PRODUCTS, OperandFormat};

/// A warp's filters for the steps of an MMA batch, by part.
#[cfg(hopper)]
pub(super) type MmaBatchFilters = [[[u32; 4]; MMA_BATCH_STEPS as usize]; 2];

/// The storage and operand format of a kernel.
pub(super) trait Format {
    /// The storage type of input, parameters and output.
    type Stored: Storage;
    /// The type to whose accuracy functions of results are computed: a 16-bit type where products have no
    /// more than 11 bits.
    type Accuracy: Storage;
    /// Parts and scaling.
    const OPERANDS: OperandFormat;
    /// Whether the producer reads a dense input in place, and converts it.
    const READS_DENSE: bool;
    /// Rounds two values to the halves of a word, `low` to the low half.
    fn pack(low: f32, high: f32) -> u32;
    /// Packs two stored values likewise, without conversion if the storage type is the operand type.
    fn join(low: Self::Stored, high: Self::Stored) -> u32;
    /// Returns the exact rounding errors of two values that [`pack`](Self::pack) rounded to `word`.
    fn left(word: u32, low: f32, high: f32) -> [f32; 2];
    /// Returns the same errors, rounded to operands.
    fn rest(word: u32, low: f32, high: f32) -> u32;
    /// Computes `a * b + d`.
    ///
    /// # Safety
    /// All lanes of the warp make this call.
    unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4];
    /// Starts an MMA batch with 64 pixels. Their high parts are at `b`, their low parts `low` units further.
    /// In the f16x2 split, accumulators start from zero; other formats add to `sums`.
    ///
    /// # Safety
    /// As [`wgmma::start_f16_9`].
    #[cfg(hopper)]
    unsafe fn start(
        sums: [f32; 32],
        a: &MmaBatchFilters,
        b: [MatrixDescriptor; MMA_BATCH_STEPS as usize],
        low: u32,
    ) -> InFlight;
}

/// f32 split into two f16.
pub(super) struct F16x2;
/// f32 rounded to one scaled f16.
pub(super) struct ScaledF16;
/// The same, with a dense input that the producer converts.
#[cfg(hopper)]
pub(super) struct DenseF32;
/// f16.
pub(super) struct F16;
/// bf16.
pub(super) struct Bf16;
/// f32 split into three bf16, multiplied in several passes.
pub(super) struct Bf16x3;

/// Returns the part that each pass multiplies, two bits a pass: of the filters (`which` 0) or the input (1).
const fn parts_of_passes(which: usize) -> u32 {
    let (mut parts, mut pass) = (0, 0);
    while pass < BF16X3_PRODUCTS.len() {
        parts |= BF16X3_PRODUCTS[pass][which] << (2 * pass);
        pass += 1;
    }
    parts
}
pub(super) const FILTER_PARTS: u32 = parts_of_passes(0);
pub(super) const INPUT_PARTS: u32 = parts_of_passes(1);

/// Returns the part that pass `pass` multiplies.
#[inline(always)]
pub(super) const fn part_of_pass(parts: u32, pass: u32) -> u32 {
    parts >> (2 * pass) & 3
}

macro_rules! format {
    ($name:ident, $Stored:ident, $Operand:ident, $Accuracy:ident, $operands:ident, $pack:ident, $mma:ident, $reads_dense:literal, $start:expr) => {
        impl Format for $name {
            type Stored = $Stored;
            type Accuracy = $Accuracy;
            const OPERANDS: OperandFormat = OperandFormat::$operands;
            const READS_DENSE: bool = $reads_dense;
            #[inline(always)]
            fn pack(low: f32, high: f32) -> u32 {
                mma::$pack(low, high)
            }
            #[inline(always)]
            fn join(low: $Stored, high: $Stored) -> u32 {
                if !Self::OPERANDS.is_stored() {
                    return mma::$pack(Storage::to_f32(low), Storage::to_f32(high));
                }
                low.to_bits() as u32 | (high.to_bits() as u32) << 16
            }
            #[inline(always)]
            fn left(word: u32, low: f32, high: f32) -> [f32; 2] {
                // Not `half`'s own method of that name, which converts in software.
                let rounded_low = Storage::to_f32($Operand::from_bits(word as u16));
                let rounded_high = Storage::to_f32($Operand::from_bits((word >> 16) as u16));
                [low - rounded_low, high - rounded_high]
            }
            #[inline(always)]
            fn rest(word: u32, low: f32, high: f32) -> u32 {
                let [low, high] = Self::left(word, low, high);
                mma::$pack(low, high)
            }
            #[inline(always)]
            unsafe fn multiply_add(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
                mma::$mma(d, a, b)
            }
            #[cfg(hopper)]
            #[inline(always)]
            unsafe fn start(
                sums: [f32; 32],
                a: &MmaBatchFilters,
                b: [MatrixDescriptor; MMA_BATCH_STEPS as usize],
                low: u32,
            ) -> InFlight {
                let start: unsafe fn(
                    [f32; 32],
                    &MmaBatchFilters,
                    [MatrixDescriptor; 3],
                    u32,
                ) -> InFlight = $start;
                start(sums, a, b, low)
            }
        }
    };
}
format!(
    F16x2,
    f32,
    f16,
    f32,
    F16X2,
    pack_f16x2,
    m16n8k16_f16,
    false,
    |_, [high, rest], b, low| {
        // High by high, high by low, low by high, as in all f16x2 kernels.
        wgmma::start_f16_9(
            &[
                high[0], high[0], rest[0], high[1], high[1], rest[1], high[2], high[2], rest[2],
            ],
            &[
                b[0],
                b[0].offset(low),
                b[0],
                b[1],
                b[1].offset(low),
                b[1],
                b[2],
                b[2].offset(low),
                b[2],
            ],
        )
    }
);
format!(
    ScaledF16,
    f32,
    f16,
    f16,
    SCALED_F16,
    pack_f16x2,
    m16n8k16_f16,
    false,
    |sums, [a, _], b, _| wgmma::add_f16_3(sums, a, &b)
);
#[cfg(hopper)]
format!(
    DenseF32,
    f32,
    f16,
    f16,
    SCALED_F16,
    pack_f16x2,
    m16n8k16_f16,
    true,
    |sums, [a, _], b, _| wgmma::add_f16_3(sums, a, &b)
);
format!(
    F16,
    f16,
    f16,
    f16,
    STORED,
    pack_f16x2,
    m16n8k16_f16,
    false,
    |sums, [a, _], b, _| wgmma::add_f16_3(sums, a, &b)
);
format!(
    Bf16x3,
    f32,
    bf16,
    f32,
    BF16X3,
    pack_bf16x2,
    m16n8k16_bf16,
    false,
    |sums, [a, _], b, _| wgmma::add_bf16_3(sums, a, &b)
);
format!(
    Bf16,
    bf16,
    bf16,
    bf16,
    STORED,
    pack_bf16x2,
    m16n8k16_bf16,
    false,
    |sums, [a, _], b, _| wgmma::add_bf16_3(sums, a, &b)
);
