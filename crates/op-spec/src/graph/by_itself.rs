//! Layers that nothing is fused with.

use crate::{CatProblem, GateProblem, NarrowProblem, PadProblem, ShuffleProblem};

/// Layers that nothing is fused with: they pass values on as they are, in another order or with others, or
/// multiply them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByItself {
    /// Nothing but another shape, by this operator.
    Reshape(&'static str),
    /// Values one behind the other.
    Cat(CatProblem),
    /// A part of an axis.
    Narrow(NarrowProblem),
    /// A product with a factor for each channel of each sample.
    Gate(GateProblem),
    /// Axes that are split, and their parts joined in another order.
    Shuffle(ShuffleProblem),
    /// Values around the spatial axes.
    Pad(PadProblem),
}

impl ByItself {
    /// The operator's name.
    pub(super) const fn operator(&self) -> &'static str {
        match self {
            Self::Reshape(operator) => operator,
            Self::Cat(_) => "cat",
            Self::Narrow(_) => "narrow",
            Self::Gate(_) => "gate",
            Self::Pad(_) => "pad",
            Self::Shuffle(problem) => problem.spec.operator(),
        }
    }
}
