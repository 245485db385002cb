//! The output that a producer passes to its epilogue.

use crate::operators::Convolved;
use crate::operators::fused::RowMoments;
use crate::program::Value;

/// The output of a producer.
pub(super) enum Produced {
    Tensor(Value),
    /// A convolution's output with moments of each channel.
    Convolved(Convolved, Option<RowMoments>),
}

impl Produced {
    /// The output.
    pub(super) fn value(&self) -> Value {
        match self {
            Produced::Tensor(x) => *x,
            Produced::Convolved(convolved, _) => convolved.y,
        }
    }
}
