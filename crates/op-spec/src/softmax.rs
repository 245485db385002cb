//! Softmax: exponentials of values divided by their sum.

use crate::error::SpecError;
use crate::reduction::{Dims, Grouped, Pass, bits};

/// Attributes of a softmax; see
/// [`torch.nn.functional.softmax`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html).
///
/// `dim` is an axis, or adjacent axes that count as one, as after PyTorch's `flatten`.
///
/// # Examples
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::SoftmaxSpec;
///
/// let problem = SoftmaxSpec::new(&[1]).problem(&[2, 8, 5, 6])?;
/// assert_eq!((problem.pass.reduced, problem.pass.inner), (8, 5 * 6));
/// # Ok::<(), convfuse::spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "graph", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "graph",
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct SoftmaxSpec {
    /// The axes, any but the batch. As in PyTorch, a negative number counts from the end.
    pub dim: Dims,
}

/// Attributes of the logarithm of a softmax, the same as of [`SoftmaxSpec`]; see
/// [`torch.nn.functional.log_softmax`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "graph", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "graph",
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct LogSoftmaxSpec {
    /// The axes, any but the batch. As in PyTorch, a negative number counts from the end.
    pub dim: Dims,
}

macro_rules! over_axes {
    ($($Spec:ident: $operator:literal, $is_log:literal, $Problem:ty, |$softmax:ident| $problem:expr;)+) => {$(
        impl $Spec {
            /// Returns the specification over the axes `dim`.
            #[must_use]
            pub const fn new(dim: &[isize]) -> Self {
                Self {
                    dim: Dims::new(dim),
                }
            }

            /// Checks the attributes against the shape of the input, any rank from 2 to 64.
            ///
            /// Empty inputs are accepted and give empty outputs.
            ///
            /// # Errors
            /// Rank under 2; an empty `dim`, or one with the batch, a missing axis, or an axis twice; axes
            /// that are not adjacent; more than [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) elements.
            pub fn problem(&self, input: &[usize]) -> Result<$Problem, SpecError> {
                let of = Grouped::of($operator, self.dim, input, 1)?;
                let $softmax = SoftmaxProblem {
                    is_log: $is_log,
                    n: input[0],
                    channels: input[1],
                    elements: of.elements,
                    pass: of.passes[0],
                    axes: of.axes,
                };
                Ok($problem)
            }
        }
    )+};
}

over_axes! {
    SoftmaxSpec: "softmax", false, SoftmaxProblem, |softmax| softmax;
    LogSoftmaxSpec: "log_softmax", true, LogSoftmaxProblem, |softmax| LogSoftmaxProblem { softmax };
}

/// A softmax, or its logarithm, whose attributes and extents fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SoftmaxProblem {
    /// Whether the results are logarithms.
    pub is_log: bool,
    /// Samples.
    pub n: usize,
    /// Extent of the second axis.
    pub channels: usize,
    /// Elements of input and output.
    pub elements: usize,
    /// The values that share a sum, as the middle axis of a tensor of three.
    pub pass: Pass,
    /// Bit mask of the axes.
    axes: u64,
}

/// The logarithm of a softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSoftmaxProblem {
    /// The softmax, with `is_log` true.
    pub softmax: SoftmaxProblem,
}

impl SoftmaxProblem {
    /// The operator's name.
    #[must_use]
    pub const fn operator(&self) -> &'static str {
        match self.is_log {
            true => "log_softmax",
            false => "softmax",
        }
    }

    /// The axes, the first one first.
    pub fn axes(&self) -> impl Iterator<Item = usize> {
        bits(self.axes)
    }

    /// Whether each sum is over all channels at a position.
    #[must_use]
    pub const fn is_of_channels(&self) -> bool {
        self.axes == 1 << 1
    }

    /// Whether each sum is over positions of a single channel.
    #[must_use]
    pub const fn is_within_channels(&self) -> bool {
        self.axes >> 1 & 1 == 0
    }
}
