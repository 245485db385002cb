//! How values become operands of MMA steps.

use crate::mode::mode;

/// How values become operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandFormat {
    /// 16-bit parts of a value.
    pub parts: u32,
    /// Whether values are scaled by a power of two, so that an f16 can hold them.
    pub scaled: bool,
    /// Passes over the reduction, each with other parts of filters and input ([`BF16X3_PRODUCTS`]); 1 where
    /// an MMA step multiplies all combinations of parts.
    pub passes: u32,
}

/// Parts of the filters and of the input in each pass of [`OperandFormat::BF16X3`], the smallest products
/// first: low by high, middle by middle, high by low, middle by high, high by middle, high by high. Tensor
/// cores truncate each sum in proportion to its magnitude, so it should become large as late as possible.
pub const BF16X3_PRODUCTS: [[u32; 2]; 6] = [[2, 0], [1, 1], [0, 2], [1, 0], [0, 1], [0, 0]];

impl OperandFormat {
    /// f32 split into two f16, 22 bits in all.
    pub const F16X2: Self = Self {
        parts: 2,
        scaled: true,
        passes: 1,
    };
    /// f32 rounded to one scaled f16, 11 bits.
    pub const SCALED_F16: Self = Self {
        parts: 1,
        scaled: true,
        passes: 1,
    };
    /// f16 and bf16, without conversion.
    pub const STORED: Self = Self {
        parts: 1,
        scaled: false,
        passes: 1,
    };
    /// f32 without a norm: three bf16 hold all of its 24 bits and have its range. So nothing is scaled, and
    /// small values keep their bits beside large ones. Products below `2^-24` of the largest are left out.
    pub const BF16X3: Self = Self {
        parts: 3,
        scaled: false,
        passes: BF16X3_PRODUCTS.len() as u32,
    };

    /// Whether stored values are operands without conversion.
    #[must_use]
    pub const fn is_stored(self) -> bool {
        self.parts == 1 && !self.scaled
    }

    /// Bytes of a result.
    #[must_use]
    pub(super) const fn value_bytes(self) -> u32 {
        if self.is_stored() { 2 } else { 4 }
    }

    /// Parts of a value in an MMA step.
    #[must_use]
    pub const fn step_parts(self) -> u32 {
        if self.passes > 1 { 1 } else { self.parts }
    }
}

mode! {
    /// How MMA steps read K-vectors of the halo tile.
    pub MmaOperands {
        /// `ldmatrix`: a step has any two consecutive K-vectors of the table of offsets.
        LDMATRIX = 0,
        /// Matrix descriptors of `wgmma`: the two K-vectors of a step have the same distance in all steps.
        DESCRIPTOR = 1,
    }
}

impl MmaOperands {
    /// Whether matrix descriptors read the halo tile.
    #[must_use]
    #[inline(always)]
    pub const fn is_descriptor(self) -> bool {
        self.0 != Self::LDMATRIX.0
    }
}

mode! {
    /// How the reformat finds the power of two that scales a sample.
    pub Prescale {
        /// The reformat uses the optimistic scale and records magnitudes. The rescale repeats samples that
        /// the scale does not suit.
        OPTIMISTIC = 0,
        /// Each block scans its sample for the largest magnitude first.
        SCANNED = 1,
    }
}

impl Prescale {
    /// Whether blocks scan their samples.
    #[must_use]
    #[inline(always)]
    pub const fn is_scanned(self) -> bool {
        self.0 != Self::OPTIMISTIC.0
    }
}
