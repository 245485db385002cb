//! Arithmetic of a tensor with another one: a parameter that PyTorch broadcasts, or a value of the same
//! shape. Arithmetic with a constant is a [pointwise function](crate::PointwiseSpec).

use crate::error::{Quantity, RankRule, SpecError};
use crate::shape::{ChannelShape, elements};

/// An operation of two operands, under PyTorch's name.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArithmeticOp {
    /// The sum, without `alpha`.
    Add,
    /// The difference, without `alpha`.
    Sub,
    /// The product.
    Mul,
    /// The quotient, without `rounding_mode`.
    Div,
}

impl ArithmeticOp {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Add, Self::Sub, Self::Mul, Self::Div];

    /// The operator's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
        }
    }

    /// Computes the operation.
    #[must_use]
    pub fn of(self, x: f64, other: f64) -> f64 {
        match self {
            Self::Add => x + other,
            Self::Sub => x - other,
            Self::Mul => x * other,
            Self::Div => x / other,
        }
    }

    /// Returns the gain and the shift of `fma(gain, x, shift)`, which equals the operation with the operand
    /// `other`. A gain of 1 and a shift of -0 change neither a value nor its sign.
    #[must_use]
    pub const fn gain_and_shift(self, other: f64) -> [f64; 2] {
        match self {
            Self::Add => [1.0, other],
            Self::Sub => [1.0, -other],
            Self::Mul => [other, -0.0],
            Self::Div => [1.0 / other, -0.0],
        }
    }
}

/// Arithmetic of a tensor and another one; see
/// [`torch.add`](https://docs.pytorch.org/docs/stable/generated/torch.add.html),
/// [`torch.sub`](https://docs.pytorch.org/docs/stable/generated/torch.sub.html),
/// [`torch.mul`](https://docs.pytorch.org/docs/stable/generated/torch.mul.html) and
/// [`torch.div`](https://docs.pytorch.org/docs/stable/generated/torch.div.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ArithmeticSpec {
    /// The operation.
    pub operation: ArithmeticOp,
}

impl ArithmeticSpec {
    /// Returns the specification of an operation. There are no other attributes.
    #[must_use]
    pub const fn new(operation: ArithmeticOp) -> Self {
        Self { operation }
    }

    /// Checks the shape of the other operand. It is either the shape of the input, of any rank, or a shape
    /// that PyTorch broadcasts to it, with one element or one for each channel.
    ///
    /// # Errors
    /// Any other shape.
    pub fn problem(
        &self,
        input: &[usize],
        other: &[usize],
    ) -> Result<ArithmeticProblem, SpecError> {
        match input == other {
            true => self.elementwise(input),
            false => self.broadcast(input, other),
        }
    }

    /// Returns the problem with an operand of the input's shape.
    pub(crate) fn elementwise(&self, input: &[usize]) -> Result<ArithmeticProblem, SpecError> {
        let elements = elements(self.operation.name(), "input", input)?;
        Ok(ArithmeticProblem {
            operation: self.operation,
            operand: ArithmeticOperand::Elements(elements),
        })
    }

    /// Returns the problem with a broadcast operand.
    pub(crate) fn broadcast(
        &self,
        input: &[usize],
        other: &[usize],
    ) -> Result<ArithmeticProblem, SpecError> {
        let operator = self.operation.name();
        let Some(absent) = input.len().checked_sub(other.len()) else {
            return Err(SpecError::Rank {
                operator,
                tensor: "other",
                actual: other.len(),
                rule: RankRule::AtMost(input.len()),
            });
        };
        for (axis, &actual) in other.iter().enumerate() {
            let expected = match axis + absent {
                1 => input[1],
                _ => 1,
            };
            if actual != expected && actual != 1 {
                return Err(SpecError::Mismatch {
                    operator,
                    quantity: Quantity::entry("other", axis),
                    actual,
                    expected,
                });
            }
        }
        let shape = match input.len() {
            0 | 1 => ChannelShape {
                n: 1,
                c: 1,
                spatial: elements(operator, "input", input)?,
            },
            _ => ChannelShape::new(operator, input)?,
        };
        Ok(ArithmeticProblem {
            operation: self.operation,
            operand: ArithmeticOperand::Channels {
                shape,
                values: other.iter().product(),
            },
        })
    }
}

/// The other operand of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArithmeticOperand {
    /// A value for each element; the number is that of the elements.
    Elements(usize),
    /// A value for each channel, or one for all.
    Channels {
        /// Shape of input and output. With a single value, an input of rank under 2 counts as one channel of
        /// one sample.
        shape: ChannelShape,
        /// Number of values: 1, or the number of channels.
        values: usize,
    },
}

/// An operation whose operands fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArithmeticProblem {
    /// The operation.
    pub operation: ArithmeticOp,
    /// The other operand.
    pub operand: ArithmeticOperand,
}

impl ArithmeticProblem {
    /// Returns the problem of an operation with a value for each channel.
    #[must_use]
    pub const fn of_channels(operation: ArithmeticOp, shape: ChannelShape) -> Self {
        Self {
            operation,
            operand: ArithmeticOperand::Channels {
                shape,
                values: shape.c,
            },
        }
    }

    /// Elements of input and output.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.operand {
            ArithmeticOperand::Elements(len) => len,
            ArithmeticOperand::Channels { shape, .. } => shape.elements(),
        }
    }

    /// Whether input and output have no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
