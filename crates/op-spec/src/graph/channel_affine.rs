//! Affine functions of channels, which several operators are.

use crate::{ArithmeticProblem, BatchNormProblem};

/// The function `gain * x + shift` with constants per channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChannelAffine {
    /// A norm by statistics that are parameters.
    BatchNorm(BatchNormProblem),
    /// An operation with a parameter, of one value or one for each channel.
    Arithmetic(ArithmeticProblem),
}

impl ChannelAffine {
    pub(super) const fn operator(&self) -> &'static str {
        match self {
            Self::BatchNorm(_) => "batch_norm",
            Self::Arithmetic(problem) => problem.operation.name(),
        }
    }
}
