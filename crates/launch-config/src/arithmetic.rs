//! Arithmetic with a parameter: its values are folded into a gain and a shift of each channel, which
//! [batch norm](crate::batch_norm)'s elementwise pass or a convolution's epilogue applies.

use op_spec::{ArithmeticOp, ArithmeticOperand, ArithmeticProblem, SpecError};

use super::{KernelGeometry, Presence};

/// An operation with one value for all channels or one for each, behind a gain and a shift or by itself.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArithmeticFold {
    /// Channels of a sample.
    pub channels: u32,
    /// Values of the other operand: 1, or the channels.
    pub values: u32,
    /// The operation.
    pub operation: ArithmeticOp,
    /// The gain and the shift that come before it.
    pub folded: Presence,
}

impl ArithmeticFold {
    /// The argument of the kernel that folds the other operand into a gain and a shift of each channel,
    /// behind such ones if `folded`.
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
