//! Reductions over the channels.
//!
//! A new operation is a line of `operations!` and an arm of each of [`ReductionOp`]'s methods.

use crate::error::{Quantity, SpecError, at_least_one};
use crate::setters::setters;
use crate::shape::ChannelShape;

/// What a reduction takes, in words.
pub(crate) const EXPECTED: &str = "expected the channels' dimension, 1; reductions over spatial dimensions \
     are pools, such as adaptive_avg_pool2d";

/// The operations, by PyTorch's names.
macro_rules! operations {
    ($($(#[$doc:meta])* $Variant:ident = $name:ident,)+) => {
        /// What a reduction makes of several values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
            /// `dim` is the channels' dimension as PyTorch counts; it is left out of the output, see
            /// [`ChannelReductionSpec`].
            #[must_use]
            pub const fn $name(dim: isize) -> ChannelReductionSpec {
                ChannelReductionSpec::new(ReductionOp::$Variant, dim)
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
}

impl ReductionOp {
    /// Whether the result is one of the values, and no order of them changes it.
    #[must_use]
    pub const fn selects(self) -> bool {
        match self {
            Self::Max | Self::Min => true,
            Self::Sum | Self::Mean => false,
        }
    }

    /// What a reduction starts with: combined with any value, it gives the value.
    #[must_use]
    pub const fn identity(self) -> f32 {
        match self {
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
            Self::Sum | Self::Mean => 0.0,
        }
    }

    /// One step: what is known of some values, and what is known of others, become what is known of all.
    #[must_use]
    pub const fn combine(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Max => {
                if b > a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            Self::Min => {
                if b < a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            Self::Sum | Self::Mean => a + b,
        }
    }

    /// The result, from `count` values that are combined.
    #[must_use]
    pub const fn finish(self, combined: f32, count: usize) -> f32 {
        match self {
            Self::Max | Self::Min | Self::Sum => combined,
            Self::Mean => combined / count as f32,
        }
    }
}

/// A reduction over the channels at every position, as PyTorch's functions of the operation's name have it:
/// `torch.amax(x, dim=1)` is `ChannelReductionSpec::new(ReductionOp::Max, 1)`.
///
/// *Shapes*: `(n, c, *)` to `(n, *)`, or to `(n, 1, *)` with `keepdim`; any rank from 2, and a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ChannelReductionSpec {
    /// What becomes of the channels' values.
    pub operation: ReductionOp,
    /// The dimension of the channels as PyTorch counts: 1, or, of an input of rank `r`, `1 - r`.
    pub dim: isize,
    /// Whether the output keeps the dimension, with an extent of 1; PyTorch's default is no.
    pub keepdim: bool,
}

setters! {
    [] ChannelReductionSpec {
        /// With the dimension kept in the output, or not.
        keepdim(keepdim: bool) |spec| spec.keepdim = keepdim;
    }
}

impl ChannelReductionSpec {
    /// A reduction whose output lacks the channels' dimension.
    #[must_use]
    pub const fn new(operation: ReductionOp, dim: isize) -> Self {
        Self {
            operation,
            dim,
            keepdim: false,
        }
    }

    /// Checks the attributes against the shape of the input.
    ///
    /// # Errors
    /// Rank under 2; `dim` is not the channels' dimension; no channels.
    pub fn problem(&self, input: &[usize]) -> Result<ChannelReductionProblem, SpecError> {
        let operator = self.operation.name();
        let shape = ChannelShape::new(operator, input)?;
        let counted = if self.dim < 0 { input.len() } else { 0 };
        if counted.checked_add_signed(self.dim) != Some(1) {
            return Err(self.other_dimension());
        }
        at_least_one(operator, Quantity::scalar("channels"), shape.c)?;
        Ok(ChannelReductionProblem {
            operation: self.operation,
            shape,
            keepdim: self.keepdim,
        })
    }

    const fn other_dimension(&self) -> SpecError {
        SpecError::ReducedDimension {
            operator: self.operation.name(),
            dim: self.dim,
        }
    }
}

/// A reduction over the channels whose attributes and extents fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelReductionProblem {
    /// What becomes of the channels' values.
    pub operation: ReductionOp,
    /// Shape of the input.
    pub shape: ChannelShape,
    /// Whether the output keeps the channels' dimension.
    pub keepdim: bool,
}

impl ChannelReductionProblem {
    /// Elements of the output.
    #[must_use]
    pub const fn output_elements(&self) -> usize {
        self.shape.n * self.shape.spatial
    }
}

#[cfg(feature = "graph")]
mod layer {
    use alloc::format;
    use alloc::vec::Vec;

    use serde::de::{DeserializeSeed, Error};
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{ChannelReductionProblem, ChannelReductionSpec, EXPECTED, ReductionOp};
    use crate::SpecError;
    use crate::graph::file::is_false;
    use crate::graph::layer::{GraphLayer, LayerProblem};

    impl ChannelReductionProblem {
        /// The output's shape, of an input of the problem's shape.
        #[must_use]
        pub fn output_shape(&self, input: &[usize]) -> Vec<usize> {
            let mut output = input.to_vec();
            match self.keepdim {
                true => output[1] = 1,
                false => drop(output.remove(1)),
            }
            output
        }
    }

    /// The attributes as they are written down, under the operation's name.
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object of attributes")]
    struct File {
        dim: Dim,
        #[serde(default, skip_serializing_if = "is_false")]
        keepdim: bool,
    }

    /// A dimension, or a list of dimensions.
    #[derive(Serialize, Deserialize)]
    #[serde(
        untagged,
        expecting = "expected dim to be a number, or a list of numbers"
    )]
    enum Dim {
        One(isize),
        Several(Vec<isize>),
    }

    impl<'de> DeserializeSeed<'de> for ReductionOp {
        type Value = ChannelReductionSpec;

        fn deserialize<D: Deserializer<'de>>(self, file: D) -> Result<Self::Value, D::Error> {
            let File { dim, keepdim } = File::deserialize(file)?;
            let dim = match dim {
                Dim::One(dim) => dim,
                Dim::Several(dims) => {
                    let other = || format!("dim is {dims:?}, {EXPECTED}");
                    let only = <[isize; 1]>::try_from(&dims[..]);
                    only.map_err(|_| D::Error::custom(other()))?[0]
                }
            };
            Ok(ChannelReductionSpec {
                operation: self,
                dim,
                keepdim,
            })
        }
    }

    impl Serialize for ChannelReductionSpec {
        fn serialize<S: Serializer>(&self, file: S) -> Result<S::Ok, S::Error> {
            let attributes = File {
                dim: Dim::One(self.dim),
                keepdim: self.keepdim,
            };
            let mut layer = file.serialize_map(Some(1))?;
            layer.serialize_entry(self.operation.name(), &attributes)?;
            layer.end()
        }
    }

    impl GraphLayer for ChannelReductionSpec {
        fn needs_batch(&self) -> bool {
            // Counted from the first axis, the channels' dimension is another one without a batch.
            self.dim >= 0
        }

        fn check(&self, _: usize) -> Result<Option<usize>, SpecError> {
            match self.dim {
                0 | 2.. => Err(self.other_dimension()),
                _ => Ok(self.keepdim.then_some(1)),
            }
        }

        fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
            let problem = self.problem(input)?;
            let output = problem.output_shape(input);
            Ok((LayerProblem::ChannelReduction(problem), output))
        }
    }
}
