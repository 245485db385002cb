//! Lists of pointwise functions. Kernels take them by value and apply them step by step.

use op_spec::ArithmeticOp;

use super::elementwise;
use super::{LaunchShape, Presence};

/// The maximum number of steps of a list. More functions take several launches.
pub const MAX_STEPS: usize = 8;

/// The function of a step; `kernels-gpu/src/parts/pointwise.rs` has an arm for each. The attributes in
/// [`Step`] have the order of the names here.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `min(max(x, min), max)`, which propagates NaN. Absent bounds are infinite.
    Clamp,
    /// `x` above 0, else `x * negative_slope`.
    LeakyRelu,
    /// `x * sigmoid(x)`
    Silu,
    /// `x` times the cumulative normal distribution at `x`.
    Gelu,
    /// GELU with the tanh approximation.
    GeluTanh,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x * clamp(x + 3, 0, 6) / 6`
    Hardswish,
    /// `x` above 0, else `alpha * (e^x - 1)`.
    Elu,
    /// `x` where `beta * x > threshold`, else `ln(1 + e^(beta * x))` times `1 / beta`, the third attribute.
    Softplus,
    /// `x * tanh(ln(1 + e^x))`
    Mish,
    /// `clamp(x + 3, 0, 6) / 6`
    Hardsigmoid,
    /// `fma(x, factor, summand)`
    Affine,
    /// `x` unchanged, and stored for later steps, in place of the value that was stored before.
    Keep,
    /// The sum of `x` and the stored value.
    AddKept,
    /// The difference of `x` and the stored value.
    SubKept,
    /// The product of `x` and the stored value.
    MulKept,
    /// The quotient of `x` and the stored value.
    DivKept,
}

impl Function {
    /// Whether the function needs an exponential. With one it takes 15 to 40 instructions, or 4 to 15 if it
    /// is coarse; otherwise a few.
    #[must_use]
    pub const fn has_exponential(self) -> bool {
        matches!(
            self,
            Self::Silu
                | Self::Gelu
                | Self::GeluTanh
                | Self::Sigmoid
                | Self::Tanh
                | Self::Elu
                | Self::Softplus
                | Self::Mish
        )
    }

    /// Returns the function for an operation with the stored value.
    #[must_use]
    pub const fn of_kept(operation: ArithmeticOp) -> Self {
        match operation {
            ArithmeticOp::Add => Self::AddKept,
            ArithmeticOp::Sub => Self::SubKept,
            ArithmeticOp::Mul => Self::MulKept,
            _ => Self::DivKept,
        }
    }

    /// Whether the function is an operation with the stored value.
    #[must_use]
    pub const fn takes_kept(self) -> bool {
        matches!(
            self,
            Self::AddKept | Self::SubKept | Self::MulKept | Self::DivKept
        )
    }
}

/// A function with its attributes, rounded to f32. Unused attributes are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The function.
    pub function: Function,
    /// The function's attributes.
    pub attributes: [f32; 3],
}

impl Step {
    /// Returns a step without attributes.
    #[must_use]
    pub const fn plain(function: Function) -> Self {
        Self::new(function, [0.0; 3])
    }

    /// Returns a step with attributes, rounded to f32.
    #[must_use]
    pub const fn new(function: Function, attributes: [f64; 3]) -> Self {
        let [a, b, c] = attributes;
        Self {
            function,
            attributes: [a as f32, b as f32, c as f32],
        }
    }
}

/// Functions that are applied in sequence in f32, without rounding to the storage type in between.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointwiseList {
    /// The steps in use come first; the others are ignored.
    steps: [Step; MAX_STEPS],
    len: u32,
    /// Whether a step stores a value.
    keeps: Presence,
}

impl PointwiseList {
    /// The empty list.
    pub const EMPTY: Self = Self {
        steps: [Step {
            function: Function::Clamp,
            attributes: [0.0; 3],
        }; MAX_STEPS],
        len: 0,
        keeps: Presence::ABSENT,
    };

    /// Takes up to [`MAX_STEPS`] steps from the iterator; any others stay in it.
    pub fn take(steps: &mut impl Iterator<Item = Step>) -> Self {
        let mut list = Self::EMPTY;
        while list.len() < MAX_STEPS
            && let Some(step) = steps.next()
        {
            list.steps[list.len()] = step;
            list.len += 1;
            if step.function == Function::Keep {
                list.keeps = Presence::PRESENT;
            }
        }
        list
    }

    /// Returns a list of one step.
    #[must_use]
    pub const fn of(step: Step) -> Self {
        let mut list = Self::EMPTY;
        list.steps[0] = step;
        list.len = 1;
        list
    }

    /// Number of steps, at most [`MAX_STEPS`].
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no steps.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a value is stored for later steps.
    #[must_use]
    #[inline(always)]
    pub const fn keeps(&self) -> Presence {
        self.keeps
    }

    /// All [`MAX_STEPS`] steps; unused ones are at the end.
    #[must_use]
    pub const fn steps(&self) -> &[Step; MAX_STEPS] {
        &self.steps
    }
}

/// A list of pointwise functions with up to two operations with further operands in it. One is arithmetic
/// with a residual, a tensor of the same shape. The other one is `fma(gain[c], x, shift[c])` with a gain and
/// a shift of each channel. If both are at the same position, the residual comes first.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperandList {
    /// The functions.
    pub functions: PointwiseList,
    /// The number of functions before the residual; [`ABSENT`](Self::ABSENT) without one.
    pub residual_at: u32,
    /// The operation whose second operand is the residual.
    pub residual_operation: ArithmeticOp,
    /// The number of functions before gain and shift; [`ABSENT`](Self::ABSENT) without them.
    pub affine_at: u32,
}

impl OperandList {
    /// The position of an absent operand.
    pub const ABSENT: u32 = u32::MAX;

    /// The list that changes no value.
    pub const EMPTY: Self = Self {
        functions: PointwiseList::EMPTY,
        residual_at: Self::ABSENT,
        residual_operation: ArithmeticOp::Add,
        affine_at: Self::ABSENT,
    };

    /// Whether the list has a residual.
    #[must_use]
    pub const fn has_residual(&self) -> bool {
        self.residual_at != Self::ABSENT
    }

    /// Whether the list has a gain and a shift of each channel.
    #[must_use]
    pub const fn is_affine(&self) -> bool {
        self.affine_at != Self::ABSENT
    }

    /// Returns the bounds of a list that is empty or a clamp.
    #[must_use]
    #[inline(always)]
    pub const fn as_clamp(&self) -> Option<elementwise::Bounds> {
        let first = &self.functions.steps[0];
        if self.has_residual() || self.is_affine() {
            return None;
        }
        match (self.functions.len, first.function) {
            (0, _) => Some(elementwise::Bounds {
                min: f32::NEG_INFINITY,
                max: f32::INFINITY,
            }),
            (1, Function::Clamp) => Some(elementwise::Bounds {
                min: first.attributes[0],
                max: first.attributes[1],
            }),
            _ => None,
        }
    }

    /// Whether the list changes no value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.functions.is_empty() && !self.has_residual() && !self.is_affine()
    }
}

/// The launch of a list over `elements` elements.
#[must_use]
pub const fn shape(elements: u64) -> Option<LaunchShape> {
    elementwise::shape(elements)
}

/// Coefficients of a polynomial in `(x - 4) / (x + 4)` that approximates the normal distribution's tail
/// beyond `x >= 0`, times `e^(x^2 / 2) * (x + 4)`. The relative error is 2^-25.7. Kernels evaluate it in f32,
/// the CPU backend in float64.
pub const TAIL: [f32; 10] = [
    0.755_285_14,
    -0.607_896_7,
    0.387_136_67,
    -0.186_521_46,
    0.060_405_43,
    -0.007_534_513_2,
    -0.003_519_915_3,
    0.001_582_11,
    0.000_192_508_97,
    -0.000_129_653_17,
];
