/// The arithmetic that a tolerance allows for.
///
/// Units are unit roundoffs: half the distance from 1 to the next larger number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Unit roundoff of a convolution's products and sums.
    pub products: f64,
    /// What an instruction of tensor cores cuts off when it adds 16 products to a sum, in parts of the
    /// largest of them; 0 where each product is added with one rounding.
    pub cut: f64,
    /// Such instructions for each 16 products: one for each product of parts of the factors that is added to
    /// one sum at full size.
    pub instructions: usize,
    /// The relative error of a product because its factors are rounded.
    pub factors: f64,
    /// The error of an input in a sample so small that kernels scale it by their largest power of two: half
    /// of the smallest number of the operands' format, divided by that power.
    pub factors_underflow: f64,
    /// The error of a factor relative to the largest magnitude of its sample or filter: half of the smallest
    /// number of the operands' format, relative to the value that the largest magnitude is scaled to at
    /// least.
    pub factors_of_largest: f64,
    /// Unit roundoff of all other arithmetic.
    pub arithmetic: f64,
    /// Unit roundoff of the format that tensors are stored in, 0 if it is the arithmetic's own.
    pub storage: f64,
    /// Half the smallest positive number of that format, the error of rounding to nothing.
    pub underflow: f64,
    /// The largest finite number of that format; beyond, infinity is the right answer.
    pub largest: f64,
    /// Whether a scale is folded into the weight and bias of the group norm before it, which are then stored
    /// in that format.
    pub folds_scale: bool,
}

const F32_UNIT: f64 = 1.0 / (1u64 << 24) as f64;
const TF32_UNIT: f64 = 1.0 / (1u64 << 11) as f64;
/// What of 17 addends, each cut off two bits below the last of the largest, and of their sum is left out at
/// the most: see `cuda_std::mma`.
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
        // f16's least number is 2^-24, and the kernel of one launch for images multiplies by 2^100 at the
        // most.
        factors_underflow: LEAST_FACTOR,
        // Half of f16's least number is 2^-25, and samples are scaled so that their largest is 2^8 at the
        // least, filters 2^10.
        factors_of_largest: 1.0 / (1u64 << 33) as f64,
        arithmetic: F32_UNIT,
        storage: 0.0,
        // Subnormal numbers may be flushed to zero.
        underflow: f32::MIN_POSITIVE as f64,
        largest: f32::MAX as f64,
        folds_scale: false,
    };

    /// f32 with convolutions on tensor cores of factors that are sums of two f16: each lacks up to `2^-22` of
    /// itself, and the product of the second parts, as much, is left out. All three products that are there
    /// are added to one sum.
    pub const F16X2: Self = Self {
        cut: CUT,
        instructions: 3,
        factors: 3.0 / (1u64 << 22) as f64,
        ..Self::F32
    };

    /// f32 with convolutions on tensor cores of factors that are sums of three bf16: products of less than
    /// `2^-23` of that of the factors are left out, and what is added before the products of the first parts
    /// is 100 times smaller.
    pub const BF16X3: Self = Self {
        cut: CUT,
        factors: 1.0 / (1u64 << 23) as f64,
        ..Self::F32
    };

    /// f32 with convolutions of factors rounded to 11 bits (tf32, or f16 at one scale for each sample and
    /// each filter), by tensor cores or not.
    pub const TF32: Self = Self {
        cut: CUT,
        factors: 2.0 * TF32_UNIT,
        ..Self::F32
    };

    /// f32 arithmetic on tensors stored in half precision, convolutions by tensor cores or not: beside what
    /// is stored, there is little between the two.
    pub const F16: Self = Self {
        cut: CUT,
        factors_underflow: 0.0,
        factors_of_largest: 0.0,
        storage: TF32_UNIT,
        underflow: 1.0 / (1u64 << 25) as f64,
        largest: 65504.0,
        ..Self::F32
    };

    /// The same on tensors stored in bfloat16.
    pub const BF16: Self = Self {
        cut: CUT,
        factors_underflow: 0.0,
        factors_of_largest: 0.0,
        storage: 1.0 / (1u64 << 8) as f64,
        ..Self::F32
    };

    /// float64 on both sides: the reference against PyTorch, each with errors of its own.
    pub const F64: Self = Self {
        products: f64::EPSILON,
        cut: 0.0,
        instructions: 1,
        factors: 0.0,
        factors_underflow: 0.0,
        factors_of_largest: 0.0,
        arithmetic: f64::EPSILON,
        storage: 0.0,
        underflow: f64::MIN_POSITIVE,
        largest: f64::MAX,
        folds_scale: false,
    };

    /// The same arithmetic on values that stay in registers, in f32.
    #[must_use]
    pub const fn unstored(self) -> Self {
        Self {
            storage: 0.0,
            underflow: Self::F32.underflow,
            largest: Self::F32.largest,
            ..self
        }
    }

    /// The same arithmetic where a scale is folded into the group norm before it. That changes only what is
    /// stored in another format than the arithmetic's: in its own, folding is one of the roundings that a
    /// norm has anyway.
    #[must_use]
    pub fn folding_scale(self) -> Self {
        Self {
            folds_scale: self.storage != 0.0,
            ..self
        }
    }
}
