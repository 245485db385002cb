//! The math modes of fused convolutions.

use std::fmt;
use std::str::FromStr;

use cuda_std::Label;

use crate::device::DType;

/// The math mode of f32 convolutions on tensor cores. Products of f16 and bf16 tensors are exact in both
/// modes. In kernels without tensor cores, f32 products are exact but for their rounding.
///
/// In both modes f32 factors are multiplied as f16, scaled by one power of two for each sample and one for
/// each filter. The exception is an accurate convolution that no norm with its own statistics follows:
/// nothing is scaled, and the error of an output depends only on its own window. Infinities and NaN appear
/// where PyTorch has them, in both modes, and do not affect scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Precision {
    /// The f16x2 split: each factor is the sum of two scaled f16 with 22 bits in all. Errors are of the same
    /// order as an f32 FMA chain's, for any number of terms.
    ///
    /// *Factors*: the error of a factor is at most the larger of `2^-22` of itself and `2^-33` of the largest
    /// finite factor of its sample or filter. So channels may differ in magnitude by `2^11` (2,000) before
    /// the second bound matters; at a difference of 10^4 it is `2^-19` of the smaller channel's terms. The
    /// one-launch kernel for images multiplies inputs by at most `2^100`. If all inputs of a sample are below
    /// `2^-89`, each is off by up to `2^-125`.
    ///
    /// *Sums*: tensor cores truncate. An instruction adds 16 terms, and cuts off less than `5.25 * 2^-23` of
    /// the largest of its sum and its terms. At most 51 instructions (17 steps of three products) follow one
    /// another before their sum is promoted to a total that rounds. This error is below `51 * 5.25 * 2^-23`,
    /// 3.2e-5, of the sum of magnitudes; for mixed signs it is 1e-6 of the results' standard deviation.
    ///
    /// *Without a norm*: the bf16x3 split. A factor is the sum of three bf16, which hold all of its bits with
    /// f32's range. Products of less than `2^-23` of the product of both factors are left out. Equally few
    /// instructions follow one another. Factors below `2^-110` may be off by up to `2^-134` each.
    #[default]
    Accurate,
    /// The tf32 class: each factor is rounded to 11 bits, as tf32 does. The error of a factor is up to
    /// `2^-11` of itself, so a result's is up to `2^-10` of the sum of magnitudes, and half of that or less
    /// for many terms. Sums are f32.
    ///
    /// The kernel `gemm_sm90` multiplies tf32. Factors from `3.40199e38` on may become infinite there.
    ///
    /// In all other kernels, a factor may also be off by `2^-33` of the largest finite factor of its
    /// sample or filter (of `2^-118`, if that is larger; in the one-launch kernel for images as above). So
    /// values below `2^-22` (four millionths) of their sample's largest are off by more than `2^-11` of
    /// themselves, and values ten decades below it are lost. If some outputs depend only on such values, and
    /// no norm follows, use [`Accurate`](Self::Accurate).
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

/// The options of fused convolutions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FusedOptions {
    pub(crate) precision: Precision,
    /// Whether the choice of kernels ignores the batch size, so that a sample's results have the same bits in
    /// any batch.
    pub(crate) batch_invariant: bool,
}
