//! Maximum over the channels.

use crate::error::{Quantity, SpecError, at_least_one};
use crate::shape::ChannelShape;

const OPERATOR: &str = "channel_max";

/// The largest channel at every position; PyTorch's `torch.max(x, dim=1).values`. No attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        from = "crate::graph::file::NoAttributes",
        into = "crate::graph::file::NoAttributes"
    )
)]
pub struct ChannelMaxSpec;

impl ChannelMaxSpec {
    /// Checks the shape of the input (any rank from 2). The output lacks dimension 1.
    ///
    /// # Errors
    /// Rank under 2; no channels, since nothing has no largest element.
    pub fn problem(&self, input: &[usize]) -> Result<ChannelMaxProblem, SpecError> {
        let shape = ChannelShape::new(OPERATOR, input)?;
        at_least_one(OPERATOR, Quantity::scalar("channels"), shape.c)?;
        Ok(ChannelMaxProblem { shape })
    }
}

/// A channel maximum whose extents are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelMaxProblem {
    /// Shape of the input.
    pub shape: ChannelShape,
}

impl ChannelMaxProblem {
    /// Elements of the output.
    #[must_use]
    pub const fn output_elements(&self) -> usize {
        self.shape.n * self.shape.spatial
    }
}

#[cfg(feature = "graph")]
mod layer {
    use alloc::vec::Vec;

    use super::ChannelMaxSpec;
    use crate::SpecError;
    use crate::graph::file::NoAttributes;
    use crate::graph::layer::{GraphLayer, Layer, LayerProblem};

    impl Layer {
        /// The maximum over the channels.
        #[must_use]
        pub const fn channel_max() -> Layer {
            Layer::ChannelMax(ChannelMaxSpec)
        }
    }

    #[doc(hidden)] // only for serde
    impl From<NoAttributes> for ChannelMaxSpec {
        fn from(_: NoAttributes) -> Self {
            Self
        }
    }

    impl From<ChannelMaxSpec> for NoAttributes {
        fn from(_: ChannelMaxSpec) -> Self {
            Self {}
        }
    }

    impl GraphLayer for ChannelMaxSpec {
        fn needs_batch(&self) -> bool {
            // It takes the maximum over axis 1.
            true
        }

        fn check(&self, _: usize) -> Result<Option<usize>, SpecError> {
            Ok(None)
        }

        fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
            let problem = self.problem(input)?;
            let mut output = input.to_vec();
            output.remove(1);
            Ok((LayerProblem::ChannelMax(problem), output))
        }
    }
}
