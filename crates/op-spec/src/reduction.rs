//! Reductions over any axes but the batch.
//!
//! A new operation is a line of `operations!` and an arm of [`ReductionOp`]'s methods.

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::setters::setters;
use crate::shape::elements;

/// The maximum number of groups of adjacent axes that a reduction takes.
pub(crate) const MAX_PASSES: usize = 3;

/// The operations, under PyTorch's names, as the arguments of a macro.
macro_rules! operations {
    ($define:ident) => {
        $define! {
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
    };
}

#[cfg(feature = "graph")]
pub(crate) use operations;

macro_rules! enumeration {
    ($($(#[$doc:meta])* $Variant:ident = $name:ident,)+) => {
        /// The operation of a reduction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ReductionOp {$(
            $(#[$doc])*
            $Variant,
        )+}

        impl ReductionOp {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$Variant),+];

            /// PyTorch's name, which is also the layer's name in chain files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => stringify!($name),)+
                }
            }
        }
    };
}

operations!(enumeration);

impl ReductionOp {
    /// Whether the result is one of the values, independent of their order.
    #[must_use]
    pub const fn selects(self) -> bool {
        match self {
            Self::Max | Self::Min => true,
            Self::Sum | Self::Mean | Self::LogSumExp => false,
        }
    }

    /// Returns the operation of a step that others follow: the sum for a mean, whose divisor belongs to the
    /// last step.
    #[must_use]
    pub const fn partial(self) -> Self {
        match self {
            Self::Mean => Self::Sum,
            other => other,
        }
    }

    /// Returns the operation that combines partial results, and applies what the last step applies: the
    /// divisor of a mean, for example. An operation that transforms the values differs from it.
    #[must_use]
    pub const fn combination(self) -> Self {
        self
    }

    /// Returns the operation of step `step` of a reduction in `steps` steps. The first one reads the values,
    /// and each further one the partial results of the step before.
    ///
    /// # Examples
    /// ```
    /// # mod convfuse { pub mod spec { pub use op_spec::*; } }
    /// use convfuse::spec::ReductionOp::{Max, Mean, Sum};
    ///
    /// assert_eq!(Mean.of_step(0, 1), Mean);
    /// assert_eq!([0, 1, 2].map(|step| Mean.of_step(step, 3)), [Sum, Sum, Mean]);
    /// assert_eq!([0, 1].map(|step| Max.of_step(step, 2)), [Max, Max]);
    /// ```
    #[must_use]
    pub const fn of_step(self, step: usize, steps: usize) -> Self {
        let operation = if step == 0 { self } else { self.combination() };
        if step + 1 < steps {
            operation.partial()
        } else {
            operation
        }
    }

    /// Whether kernels of convolutions and of norms have the operation in their epilogues. Its state must be
    /// one value, and its partial results must be combined by the operation itself.
    #[must_use]
    pub const fn is_fusible(self) -> bool {
        match self {
            Self::Max | Self::Min | Self::Sum | Self::Mean => true,
            Self::LogSumExp => false,
        }
    }
}

/// Axes of a tensor as PyTorch counts them; negative numbers count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dims {
    /// Bit mask of the axes that are counted from the first one.
    front: u64,
    /// Bit mask of the axes that are counted from the end; the lowest bit is -1.
    pub(crate) back: u64,
    /// An axis that is given twice, or that is out of range for every tensor.
    refused: Option<isize>,
}

impl Dims {
    /// Collects these axes, in any order.
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

    /// Iterates over the axes: first those counted from the first one, then those counted from the end.
    pub fn iter(self) -> impl Iterator<Item = isize> {
        let back = bits(self.back).map(|bit| !(bit as isize));
        let front = bits(self.front).map(|bit| bit as isize);
        front.chain(back).chain(self.refused)
    }

    /// Returns the bit mask of the axes of a tensor of this rank. The error is an axis that is the batch, is
    /// given twice, or does not exist.
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

/// Iterates over the bits that are set, the lowest first.
pub(crate) fn bits(of: u64) -> impl DoubleEndedIterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |bit| of >> bit & 1 == 1)
}

/// A reduction over axes, like PyTorch's function for the operation:
/// `ReductionSpec::new(ReductionOp::Max, &[2, 3])` is `torch.amax(x, dim=[2, 3])`.
///
/// *Shapes*: `(n, ..)` to the same without the axes, or, with `keepdim`, with an extent of 1 for each of
/// them. The rank is 2 to 64, and there is at least one value to reduce.
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
    /// The operation.
    pub operation: ReductionOp,
    /// The axes, any but the batch. As in PyTorch, a negative number counts from the end.
    pub dim: Dims,
    /// Whether the output keeps the axes, with an extent of 1 each; PyTorch's default is false.
    pub keepdim: bool,
}

setters! {
    [] ReductionSpec {
        /// Sets whether the output keeps the axes.
        keepdim(keepdim: bool) |spec| spec.keepdim = keepdim;
    }
}

impl ReductionSpec {
    /// Returns a reduction whose output lacks the axes `dim`.
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
    /// Rank under 2; an empty `dim`, or one with the batch, a missing axis, or an axis twice; more than three
    /// groups of adjacent axes; no values to reduce; more than [`MAX_ELEMENTS`](crate::MAX_ELEMENTS)
    /// elements.
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

/// Returns the bit mask of the axes `dim` of an input of this rank.
pub(crate) fn axes(operator: &'static str, dim: Dims, rank: usize) -> Result<u64, SpecError> {
    match dim.axes(rank) {
        Ok(0) => Err(SpecError::ReducesNothing { operator }),
        Ok(axes) => Ok(axes),
        Err(dim) => Err(SpecError::ReducedDimension { operator, dim }),
    }
}

/// Axes of an input, in groups of adjacent axes.
pub(crate) struct Grouped {
    /// Bit mask of the axes.
    pub(crate) axes: u64,
    /// Elements of the input, and the product of the extents of the axes.
    pub(crate) elements: usize,
    pub(crate) count: usize,
    /// One pass for each group; only the first `len` are valid.
    pub(crate) passes: [Pass; MAX_PASSES],
    len: usize,
}

impl Grouped {
    /// Groups the axes `dim` of an input of this shape, into at most `limit` groups.
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
        // Each group has the elements of the other axes before it, and its own. Axes with one element join
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

/// Returns the passes over the first `len` groups of `n` samples. Each group has the number of elements
/// before it and its own; `behind` elements follow the last one. The largest group comes first, because it
/// leaves the fewest elements to the later passes.
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

/// A reduction of the middle axis of a tensor with three axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass {
    /// Elements of the axes before the reduced one.
    pub outer: usize,
    /// Number of values per result.
    pub reduced: usize,
    /// Elements of the axes behind the reduced one: the distance between the reduced values.
    pub inner: usize,
}

impl Pass {
    /// Returns the pass over a tensor with these extents.
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
    /// The operation.
    pub operation: ReductionOp,
    /// Whether the output keeps the axes.
    pub keepdim: bool,
    /// Samples.
    pub n: usize,
    /// Elements of the input.
    pub elements: usize,
    /// Number of values per result.
    pub count: usize,
    /// Bit mask of the axes.
    axes: u64,
    passes: [Pass; MAX_PASSES],
    len: usize,
}

impl ReductionProblem {
    /// Returns the shape of the output for the problem's input shape.
    #[cfg(feature = "graph")]
    #[must_use]
    pub fn output_shape(&self, input: &[usize]) -> alloc::vec::Vec<usize> {
        let left = |(axis, &extent)| match self.axes >> axis & 1 {
            0 => Some(extent),
            _ => self.keepdim.then_some(1),
        };
        input.iter().enumerate().filter_map(left).collect()
    }

    /// The passes of the reduction, in order: one for each group of adjacent axes.
    #[must_use]
    pub fn passes(&self) -> &[Pass] {
        &self.passes[..self.len]
    }

    /// The reduced axes of the input, the first one first.
    pub fn axes(&self) -> impl DoubleEndedIterator<Item = usize> {
        bits(self.axes)
    }

    /// Returns the pass if exactly the channels are reduced: at each position of each sample.
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
