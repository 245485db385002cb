//! The math modes of fused convolutions.

use std::fmt;
use std::str::FromStr;

use cuda_std::Label;

use crate::device::DType;

/// The math mode of f32 convolutions on tensor cores. Products of f16 and bf16 tensors are exact in either
/// mode, and so are f32 products in kernels without tensor cores (but for their rounding).
///
/// f32 is multiplied as f16, scaled by a power of two for each sample and one for each filter. Accurate
/// convolutions without a norm of their own statistics are different: nothing is scaled, and the error of an
/// output depends on its own window alone. Infinities and NaN are where PyTorch has them, in either mode, and
/// do not count for a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Precision {
    /// Each factor as the sum of two scaled f16, 22 bits in all: errors of the same order as those of an f32
    /// FMA chain, for any number of terms. A factor is off by `2^-22` of itself at most, or, where that is
    /// more, by `2^-33` of the largest finite one of its sample, or of its filter: so channels may differ in
    /// magnitude by `2^11`, 2,000 times, before this counts at all, and by 10^4 with `2^-19` of the smaller
    /// one's terms. The kernel of one launch for images multiplies inputs by `2^100` at the most, so where
    /// all of a sample are below `2^-89`, each is off by up to `2^-125`. Tensor cores truncate: an
    /// instruction, which adds 16 terms, cuts off less than `5.25 * 2^-23` of the largest of its sum and its
    /// terms. At most 51 follow one another (17 steps of three products) before their sum is added to a total
    /// that rounds, so a result is off by less than `51 * 5.25 * 2^-23`, 3.2e-5, of the sum of magnitudes for
    /// that; where signs are mixed, by 1e-6 of the results' standard deviation. Without a norm behind, the
    /// sum of three bf16, which are all of its bits and have f32's range: products of less than `2^-23` of
    /// the product of both factors are left out, and as few instructions follow one another. Factors below
    /// `2^-110` may lack up to `2^-134` each in that.
    #[default]
    Accurate,
    /// Each factor rounded to 11 bits, as tf32 does: errors up to `2^-11` of each, so `2^-10` of the sum of
    /// magnitudes, and half of that or less where it has many terms; sums are f32's. Where that is more, a
    /// factor is off by `2^-33` of the largest finite one of its sample, or of its filter (of `2^-118`, if it
    /// is less; in the kernel of one launch for images as above), which tf32 does not have: values less than
    /// `2^-22`, four millionths, of their sample's largest are off by more than `2^-11` of themselves, and
    /// ten decades below it nothing is left. Where such values have outputs of their own, without a norm
    /// behind, there is [`Accurate`](Self::Accurate).
    Fast,
}

impl Precision {
    /// Every precision, the most accurate first.
    pub const ALL: [Precision; 2] = [Precision::Accurate, Precision::Fast];

    /// The label of kernels of this mode for tensors of `dtype`.
    pub(crate) fn label(self, dtype: DType) -> Label {
        let [split, rounded] = ["f16x2_f32", "scaled_f16_f32"].map(Label::Name);
        self.pick(dtype, [split, rounded, dtype.label()])
    }

    /// Picks one of three values: for accurate f32, for fast f32, or for stored 16-bit types.
    pub(crate) fn pick<T>(self, dtype: DType, [accurate, fast, stored]: [T; 3]) -> T {
        match (dtype, self) {
            (DType::F32, Precision::Accurate) => accurate,
            (DType::F32, Precision::Fast) => fast,
            (DType::F16 | DType::BF16, _) => stored,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Precision::Accurate => "accurate",
            Precision::Fast => "fast",
        })
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut known = Precision::ALL.into_iter();
        let found = known.find(|precision| precision.to_string() == name);
        found.ok_or_else(|| format!("precision: {name} is unknown, must be one of accurate, fast"))
    }
}

/// Options of producers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FusedOptions {
    pub(crate) precision: Precision,
    /// Whether the choice of kernels ignores the batch size, so that a sample's results are the same bits in
    /// any batch.
    pub(crate) batch_invariant: bool,
}
