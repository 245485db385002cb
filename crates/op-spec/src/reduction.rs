//! Reductions over any axes but the batch.
//!
//! A new operation is a line of `operations!` and an arm of each of [`ReductionOp`]'s methods.

#[cfg(feature = "graph")]
mod layer;

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::setters::setters;
use crate::shape::elements;

/// What a reduction takes, in words.
pub(crate) const EXPECTED: &str = "expected axes of the input behind the batch, each once";

/// The most groups of neighbouring axes that a reduction takes.
pub(crate) const MAX_PASSES: usize = 3;

/// The operations, by PyTorch's names.
macro_rules! operations {
    ($($(#[$doc:meta])* $Variant:ident = $name:ident,)+) => {
        /// What a reduction makes of several values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ReductionOp {$(
            $(#[$doc])*
            $Variant,
        )+}

        impl ReductionOp {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$Variant),+];

            /// PyTorch's name, that of the layer in files of chains.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => stringify!($name),)+
                }
            }
        }

        #[cfg(feature = "graph")]
        impl crate::graph::Layer {$(
            $(#[$doc])*
            ///
            /// `dim` has the axes as PyTorch counts; they are left out of the output, see [`ReductionSpec`].
            #[must_use]
            pub const fn $name(dim: &[isize]) -> ReductionSpec {
                ReductionSpec::new(ReductionOp::$Variant, dim)
            }
        )+}
    };
}

operations! {
    /// The largest; PyTorch's `torch.amax(x, dim)`. NaN wins.
    Max = max,
    /// The smallest; PyTorch's `torch.amin(x, dim)`. NaN wins.
    Min = min,
    /// The sum; PyTorch's `torch.sum(x, dim)`.
    Sum = sum,
    /// The sum divided by the number of values; PyTorch's `torch.mean(x, dim)`.
    Mean = mean,
    /// The logarithm of the sum of exponentials; PyTorch's `torch.logsumexp(x, dim)`.
    LogSumExp = logsumexp,
}

impl ReductionOp {
    /// Whether the result is one of the values, and no order of them changes it.
    #[must_use]
    pub const fn selects(self) -> bool {
        match self {
            Self::Max | Self::Min => true,
            Self::Sum | Self::Mean | Self::LogSumExp => false,
        }
    }

    /// The operation that makes of values what this one makes of its results: sums for a mean, whose divisor
    /// is the last step's.
    #[must_use]
    pub const fn partial(self) -> Self {
        match self {
            Self::Mean => Self::Sum,
            other => other,
        }
    }
}

/// Axes of a tensor as PyTorch counts them: from the first axis, or, below zero, from behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dims {
    /// A bit for each axis that is counted from the first.
    front: u64,
    /// A bit for each that is counted from the end, the lowest for -1.
    back: u64,
    /// An axis that is given twice, or that no tensor has.
    refused: Option<isize>,
}

impl Dims {
    /// These axes, in any order.
    #[must_use]
    pub const fn new(dims: &[isize]) -> Self {
        let mut new = Self {
            front: 0,
            back: 0,
            refused: None,
        };
        let mut at = 0;
        while at < dims.len() {
            let dim = dims[at];
            let (counted, bit) = if dim < 0 {
                (&mut new.back, !dim)
            } else {
                (&mut new.front, dim)
            };
            if bit >= u64::BITS as isize || *counted >> bit & 1 == 1 {
                new.refused = Some(dim);
            } else {
                *counted |= 1 << bit;
            }
            at += 1;
        }
        new
    }

    /// The axes: those counted from the first one, then those counted from the end.
    pub fn iter(self) -> impl Iterator<Item = isize> {
        let back = bits(self.back).map(|bit| !(bit as isize));
        let front = bits(self.front).map(|bit| bit as isize);
        front.chain(back).chain(self.refused)
    }

    /// A bit for each axis of a tensor of this rank, or the axis that is the batch, is given twice, or is
    /// none of the tensor's.
    fn axes(self, rank: usize) -> Result<u64, isize> {
        let mut axes = 0u64;
        for dim in self.iter() {
            let counted = if dim < 0 { rank } else { 0 };
            match counted.checked_add_signed(dim) {
                Some(axis) if (1..rank).contains(&axis) && axes >> axis & 1 == 0 => {
                    axes |= 1 << axis;
                }
                _ => return Err(dim),
            }
        }
        Ok(axes)
    }
}

/// The bits that are set, the lowest first.
pub(crate) fn bits(of: u64) -> impl DoubleEndedIterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |bit| of >> bit & 1 == 1)
}

/// A reduction over axes, as PyTorch's functions of the operation's name have it:
/// `torch.amax(x, dim=[2, 3])` is `ReductionSpec::new(ReductionOp::Max, &[2, 3])`.
///
/// *Shapes*: `(n, ..)` to the same without the axes, or, with `keepdim`, with an extent of 1 for each; any
/// rank from 2 to 64, and at least one value to reduce.
///
/// # Examples
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::{ReductionOp, ReductionSpec};
///
/// let mean = ReductionSpec::new(ReductionOp::Mean, &[2, 3]).keepdim(true);
/// let problem = mean.problem(&[2, 8, 5, 6])?;
/// assert_eq!(problem.output_elements(), 2 * 8);
/// # Ok::<(), convfuse::spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReductionSpec {
    /// What becomes of the values.
    pub operation: ReductionOp,
    /// The axes, any but the batch. PyTorch counts them from the first axis, or, below zero, from the end.
    pub dim: Dims,
    /// Whether the output keeps the axes, with an extent of 1 each; PyTorch's default is no.
    pub keepdim: bool,
}

setters! {
    [] ReductionSpec {
        /// With the axes kept in the output, or not.
        keepdim(keepdim: bool) |spec| spec.keepdim = keepdim;
    }
}

impl ReductionSpec {
    /// A reduction whose output lacks the axes `dim`.
    #[must_use]
    pub const fn new(operation: ReductionOp, dim: &[isize]) -> Self {
        Self {
            operation,
            dim: Dims::new(dim),
            keepdim: false,
        }
    }

    /// Checks the attributes against the shape of the input.
    ///
    /// # Errors
    /// Rank under 2; `dim` is empty, names the batch, an axis that the input does not have, or one twice;
    /// more than three groups of neighbouring axes; nothing to reduce; more elements than memory addresses.
    pub fn problem(&self, input: &[usize]) -> Result<ReductionProblem, SpecError> {
        let operator = self.operation.name();
        let of = Grouped::of(operator, self.dim, input, MAX_PASSES)?;
        for axis in bits(of.axes) {
            at_least_one(operator, Quantity::entry("input", axis), input[axis])?;
        }
        Ok(ReductionProblem {
            operation: self.operation,
            keepdim: self.keepdim,
            n: input[0],
            elements: of.elements,
            count: of.count,
            axes: of.axes,
            passes: of.passes,
            len: of.len,
        })
    }
}

/// A bit for each of the axes `dim` of an input of this rank.
pub(crate) fn axes(operator: &'static str, dim: Dims, rank: usize) -> Result<u64, SpecError> {
    match dim.axes(rank) {
        Ok(0) => Err(SpecError::ReducesNothing { operator }),
        Ok(axes) => Ok(axes),
        Err(dim) => Err(SpecError::ReducedDimension { operator, dim }),
    }
}

/// Axes of an input, in groups of neighbours.
pub(crate) struct Grouped {
    /// A bit for each of the axes.
    pub(crate) axes: u64,
    /// Elements of the input, and those along the axes.
    pub(crate) elements: usize,
    pub(crate) count: usize,
    /// A pass for each group, of which there are `len`.
    pub(crate) passes: [Pass; MAX_PASSES],
    len: usize,
}

impl Grouped {
    /// The axes `dim` of an input of this shape, in up to `limit` groups.
    pub(crate) fn of(
        operator: &'static str,
        dim: Dims,
        input: &[usize],
        limit: usize,
    ) -> Result<Self, SpecError> {
        if input.len() < 2 {
            return Err(SpecError::Rank {
                operator,
                tensor: "input",
                actual: input.len(),
                rule: RankRule::AtLeast(2),
            });
        }
        let axes = axes(operator, dim, input.len())?;
        let elements = elements(operator, "input", input)?;
        // Groups of axes, with the elements of the other axes before each. Axes of one element are part of
        // any group.
        let mut groups = [[1, 1]; MAX_PASSES];
        let (mut len, mut kept) = (0, 1);
        for (axis, &extent) in input.iter().enumerate().skip(1) {
            if axes >> axis & 1 == 0 || extent == 1 {
                kept *= extent;
            } else if len > 0 && kept == 1 {
                groups[len - 1][1] *= extent;
            } else if len < limit {
                groups[len] = [kept, extent];
                (len, kept) = (len + 1, 1);
            } else {
                return Err(SpecError::ReducedApart { operator, limit });
            }
        }
        let len = len.max(1);
        Ok(Self {
            axes,
            elements,
            count: bits(axes).map(|axis| input[axis]).product(),
            passes: passes(input[0], groups, len, kept),
            len,
        })
    }
}

/// The passes over the first `len` groups of `n` samples, each the elements before a group of reduced axes
/// and those of the group, with `behind` elements behind the last: the largest group first, which leaves the
/// least to the next.
fn passes(
    n: usize,
    mut groups: [[usize; 2]; MAX_PASSES],
    len: usize,
    behind: usize,
) -> [Pass; MAX_PASSES] {
    let mut passes = [Pass {
        outer: 0,
        reduced: 1,
        inner: 0,
    }; MAX_PASSES];
    for pass in &mut passes[..len] {
        let largest = (0..len).max_by_key(|&at| (groups[at][1], len - at));
        let at = largest.expect("a pass has a group");
        let product = |groups: &[[usize; 2]]| groups.iter().flatten().product::<usize>();
        *pass = Pass {
            outer: n * product(&groups[..at]) * groups[at][0],
            reduced: groups[at][1],
            inner: product(&groups[at + 1..len]) * behind,
        };
        groups[at][1] = 1;
    }
    passes
}

/// The reduction of the middle axis of a tensor of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass {
    /// Elements of the axes before the reduced one.
    pub outer: usize,
    /// Values of which one is made.
    pub reduced: usize,
    /// Elements of the axes behind it: the distance of these values.
    pub inner: usize,
}

impl Pass {
    /// That of a tensor with these extents.
    #[must_use]
    pub const fn new(outer: usize, reduced: usize, inner: usize) -> Self {
        Self {
            outer,
            reduced,
            inner,
        }
    }
}

/// A reduction whose attributes and extents fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReductionProblem {
    /// What becomes of the values.
    pub operation: ReductionOp,
    /// Whether the output keeps the axes.
    pub keepdim: bool,
    /// Samples.
    pub n: usize,
    /// Elements of the input.
    pub elements: usize,
    /// Values of which each result is made.
    pub count: usize,
    /// A bit for each of the axes.
    axes: u64,
    passes: [Pass; MAX_PASSES],
    len: usize,
}

impl ReductionProblem {
    /// The steps of the reduction, one after the other: one for each group of neighbouring axes.
    #[must_use]
    pub fn passes(&self) -> &[Pass] {
        &self.passes[..self.len]
    }

    /// The axes of the input that are reduced, the first one first.
    pub fn axes(&self) -> impl DoubleEndedIterator<Item = usize> {
        bits(self.axes)
    }

    /// The reduction as one of the channels at all positions of each sample, if no other axis is reduced.
    #[must_use]
    pub fn of_channels(&self) -> Option<Pass> {
        (self.axes == 1 << 1).then_some(self.passes[0])
    }

    /// Elements of the output.
    #[must_use]
    pub const fn output_elements(&self) -> usize {
        self.elements / self.count
    }
}
