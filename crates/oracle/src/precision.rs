/// The arithmetic of a computation, which determines its tolerance.
///
/// Units are unit roundoffs: half the distance from 1 to the next larger number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Unit roundoff of products and sums in a convolution.
    pub products: f64,
    /// The truncation error of a tensor-core instruction that adds 16 products to a sum, relative to the
    /// largest of them; 0 if each product is added with one rounding.
    pub cut: f64,
    /// The number of instructions for each 16 products: one for each product of split operands that is added
    /// to the same sum at full magnitude.
    pub instructions: usize,
    /// The relative error of a product due to rounded factors.
    pub factors: f64,
    /// The error of an input in a sample so small that kernels scale it by their largest power of two: half
    /// of the smallest number of the operand format, divided by that power.
    pub factors_underflow: f64,
    /// The error of a factor relative to the largest magnitude of its sample or filter: half of the smallest
    /// number of the operand format, relative to the least value that the largest magnitude is scaled to.
    pub factors_of_largest: f64,
    /// Unit roundoff of all other arithmetic.
    pub arithmetic: f64,
    /// The error of pointwise functions with exponentials beyond that of their arithmetic, relative to the
    /// result.
    pub functions: f64,
    /// The largest result of these functions that may be 0 instead.
    pub functions_underflow: f64,
    /// Unit roundoff of the storage format of tensors; 0 if it is the arithmetic's own format.
    pub storage: f64,
    /// Half of the storage format's smallest positive number: the error of rounding to 0.
    pub underflow: f64,
    /// The largest finite number of the storage format. Infinity is correct beyond it.
    pub largest: f64,
    /// Whether a scale is folded into the weight and bias of the preceding group norm, which are then stored
    /// in the storage format.
    pub folds_scale: bool,
}

const F32_UNIT: f64 = 1.0 / (1u64 << 24) as f64;
const TF32_UNIT: f64 = 1.0 / (1u64 << 11) as f64;
/// The error of functions of 16-bit values, and of products in 11 bits.
const COARSE: f64 = 1.0 / (1u64 << 16) as f64;
/// `2^-119`.
const COARSE_UNDERFLOW: f64 = 128.0 * f32::MIN_POSITIVE as f64;
/// The largest truncation error of 17 addends, each truncated two bits below the last bit of the largest,
/// and of their sum: see `cuda_std::mma`.
const CUT: f64 = 5.25 / (1u64 << 23) as f64;
/// `2^-125`.
const LEAST_FACTOR: f64 = 2.0 * f32::MIN_POSITIVE as f64;

impl Precision {
    /// f32 throughout, each product added by an FMA.
    pub const F32: Self = Self {
        products: F32_UNIT,
        cut: 0.0,
        instructions: 1,
        factors: 0.0,
        // The smallest f16 number is 2^-24, and the single-launch kernel for images multiplies by at most
        // 2^100.
        factors_underflow: LEAST_FACTOR,
        // Half of the smallest f16 number is 2^-25. Samples are scaled to a largest magnitude of at least
        // 2^8, filters to 2^10.
        factors_of_largest: 1.0 / (1u64 << 33) as f64,
        arithmetic: F32_UNIT,
        functions: 0.0,
        functions_underflow: 0.0,
        storage: 0.0,
        // Subnormal numbers may be flushed to zero.
        underflow: f32::MIN_POSITIVE as f64,
        largest: f32::MAX as f64,
        folds_scale: false,
    };

    /// f32 with convolutions on tensor cores by the f16x2 split. Each factor loses up to `2^-22` of itself,
    /// and the omitted product of the low parts is as large. The other three products are added to the same
    /// sum.
    pub const F16X2: Self = Self {
        cut: CUT,
        instructions: 3,
        factors: 3.0 / (1u64 << 22) as f64,
        ..Self::F32
    };

    /// f32 with convolutions on tensor cores by the bf16x3 split. Products below `2^-23` of the full product
    /// are omitted. The sum before the products of the high parts is 100 times smaller.
    pub const BF16X3: Self = Self {
        cut: CUT,
        factors: 1.0 / (1u64 << 23) as f64,
        ..Self::F32
    };

    /// f32 with convolutions whose factors are rounded to 11 bits: tf32, or f16 with a scale for each sample
    /// and filter. The products may be computed with or without tensor cores.
    pub const TF32: Self = Self {
        cut: CUT,
        factors: 2.0 * TF32_UNIT,
        functions: COARSE,
        functions_underflow: COARSE_UNDERFLOW,
        ..Self::F32
    };

    /// f32 arithmetic on tensors stored in f16. Convolutions may run with or without tensor cores: next to
    /// the error of storage, the difference is small.
    pub const F16: Self = Self {
        cut: CUT,
        factors_underflow: 0.0,
        factors_of_largest: 0.0,
        functions: COARSE,
        functions_underflow: COARSE_UNDERFLOW,
        storage: TF32_UNIT,
        underflow: 1.0 / (1u64 << 25) as f64,
        largest: 65504.0,
        ..Self::F32
    };

    /// The same arithmetic on tensors stored in bf16.
    pub const BF16: Self = Self {
        cut: CUT,
        factors_underflow: 0.0,
        factors_of_largest: 0.0,
        functions: COARSE,
        functions_underflow: COARSE_UNDERFLOW,
        storage: 1.0 / (1u64 << 8) as f64,
        ..Self::F32
    };

    /// float64 on both sides: compares the reference with PyTorch, each with its own errors.
    pub const F64: Self = Self {
        products: f64::EPSILON,
        cut: 0.0,
        instructions: 1,
        factors: 0.0,
        factors_underflow: 0.0,
        factors_of_largest: 0.0,
        arithmetic: f64::EPSILON,
        functions: 0.0,
        functions_underflow: 0.0,
        storage: 0.0,
        underflow: f64::MIN_POSITIVE,
        largest: f64::MAX,
        folds_scale: false,
    };

    /// The same arithmetic on values that stay in f32 registers.
    #[must_use]
    pub const fn unstored(self) -> Self {
        Self {
            storage: 0.0,
            underflow: Self::F32.underflow,
            largest: Self::F32.largest,
            ..self
        }
    }

    /// The same arithmetic with a scale folded into the preceding group norm. This changes only tensors
    /// whose storage format differs from the arithmetic's. Otherwise folding is one of the norm's usual
    /// roundings.
    #[must_use]
    pub fn folding_scale(self) -> Self {
        Self {
            folds_scale: self.storage != 0.0,
            ..self
        }
    }
}
