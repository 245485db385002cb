//! Addition of a residual: another tensor of the same shape.

use crate::SpecError;
use crate::shape::{elements, same_shape};

const OPERATOR: &str = "add";

/// Adds a tensor of the input's shape, element by element; see
/// [`torch.add`](https://docs.pytorch.org/docs/stable/generated/torch.add.html). Without `alpha`, and without
/// broadcasting: no attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddSpec;

impl AddSpec {
    /// Checks that the two shapes, of any rank, are one.
    ///
    /// # Errors
    /// A residual of another rank; one that differs in an extent, where PyTorch would repeat an extent of 1.
    pub fn problem(&self, input: &[usize], residual: &[usize]) -> Result<AddProblem, SpecError> {
        same_shape(OPERATOR, "residual", residual, input)?;
        Ok(AddProblem {
            len: elements(OPERATOR, "input", input)?,
        })
    }
}

/// An addition of two tensors of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddProblem {
    /// Elements of input, residual and output.
    pub len: usize,
}

#[cfg(feature = "graph")]
pub(crate) mod layer {
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde::{Deserialize, Serialize};

    use super::AddSpec;
    use crate::SpecError;
    use crate::graph::layer::{GraphLayer, Layer, LayerProblem};

    /// The addition of another value of the graph, of exactly the shape of the first operand.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object of attributes")]
    #[non_exhaustive]
    pub struct AddLayer {
        /// Name of the other value: in a chain, that of a further input.
        pub input: String,
    }

    impl Layer {
        /// The addition of the value of this name: in a [`Graph`](crate::graph::Graph) any value, in a
        /// [`Chain`](crate::graph::Chain) a further input.
        #[must_use]
        pub fn add(input: impl Into<String>) -> Layer {
            Layer::Add(AddLayer {
                input: input.into(),
            })
        }
    }

    impl GraphLayer for AddLayer {
        fn needs_channels(&self) -> bool {
            false
        }

        fn operands(&self) -> &[String] {
            core::slice::from_ref(&self.input)
        }

        fn commutes(&self) -> bool {
            true
        }

        fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
            let problem = AddSpec.problem(input, input)?;
            Ok((LayerProblem::Add(problem), input.to_vec()))
        }
    }
}
