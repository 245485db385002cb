//! Arithmetic with a parameter. Its values are folded into a gain and a shift of each channel, which the
//! elementwise pass of [batch norm](crate::batch_norm) or a convolution's epilogue applies.

use op_spec::{ArithmeticOp, ArithmeticOperand, ArithmeticProblem, SpecError};

use super::{KernelGeometry, Presence};

/// An operation with one value for all channels or one for each, applied to a previous gain and shift if
/// `folded`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArithmeticFold {
    /// Channels of a sample.
    pub channels: u32,
    /// Number of values of the other operand: 1, or the number of channels.
    pub values: u32,
    /// The operation.
    pub operation: ArithmeticOp,
    /// Whether there are a previous gain and shift.
    pub folded: Presence,
}

impl ArithmeticFold {
    /// Returns the argument of the kernel that folds the other operand into a gain and a shift of each
    /// channel. If `folded`, the kernel applies the operation behind a previous gain and shift.
    ///
    /// # Errors
    /// [`SpecError::BeyondKernel`] if the channels exceed 32 bits.
    pub fn of(problem: &ArithmeticProblem, folded: bool) -> Result<Self, SpecError> {
        let channels = problem.geometry()?.channels;
        Ok(Self {
            channels,
            values: match problem.operand {
                ArithmeticOperand::Channels { values: 1, .. } => 1,
                _ => channels,
            },
            operation: problem.operation,
            folded: Presence::of(folded),
        })
    }
}
