//! Layers that form a region by themselves.

use crate::{CatProblem, GateProblem, NarrowProblem, PadProblem, ShuffleProblem};

/// A layer that no other layer is fused with. It copies values unchanged (reshaped, reordered, concatenated
/// or padded) or multiplies them by a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByItself {
    /// A change of shape alone, by this operator.
    Reshape(&'static str),
    /// Concatenation along an axis.
    Cat(CatProblem),
    /// A slice of an axis.
    Narrow(NarrowProblem),
    /// A product with a factor for each channel of each sample.
    Gate(GateProblem),
    /// A shuffle: axes are split, and their parts are joined in another order.
    Shuffle(ShuffleProblem),
    /// Padding around the spatial axes.
    Pad(PadProblem),
}

impl ByItself {
    /// The operator's name.
    pub(in crate::graph) const fn operator(&self) -> &'static str {
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
