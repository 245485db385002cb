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

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize};

    use super::AddSpec;
    use crate::graph::layer::{GraphLayer, Layer, LayerProblem};
    use crate::{PointwiseSpec, SpecError};

    /// The addition of another value of the graph, of exactly the shape of the first operand.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object of attributes")]
    #[non_exhaustive]
    pub struct AddLayer {
        /// Name of the other value: in a chain, that of a further input.
        pub input: String,
    }

    /// The second operand of an addition.
    #[derive(Clone, Debug, PartialEq)]
    #[non_exhaustive]
    pub enum Addend {
        /// A constant.
        Value(f64),
        /// The value of this name: in a [`Graph`](crate::graph::Graph) any value, in a
        /// [`Chain`](crate::graph::Chain) a further input.
        Input(String),
    }

    impl From<f64> for Addend {
        fn from(value: f64) -> Self {
            Self::Value(value)
        }
    }

    impl From<&str> for Addend {
        fn from(input: &str) -> Self {
            Self::Input(input.into())
        }
    }

    impl From<String> for Addend {
        fn from(input: String) -> Self {
            Self::Input(input)
        }
    }

    impl Layer {
        /// The addition of a constant, or of the value of this name.
        ///
        /// ```
        /// use op_spec::graph::Layer;
        ///
        /// let [half, shortcut] = [Layer::add(0.5), Layer::add("shortcut")];
        /// assert_eq!(half.operator(), shortcut.operator());
        /// ```
        #[must_use]
        pub fn add(other: impl Into<Addend>) -> Layer {
            match other.into() {
                Addend::Value(value) => Layer::Pointwise(PointwiseSpec::Add { value }),
                Addend::Input(input) => Layer::Add(AddLayer { input }),
            }
        }
    }

    /// The attributes as they are written down, of which one is given.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object of attributes")]
    struct File {
        value: Option<f64>,
        input: Option<String>,
    }

    impl<'de> Deserialize<'de> for Addend {
        fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
            match File::deserialize(file)? {
                File {
                    value: Some(value),
                    input: None,
                } => Ok(value.into()),
                File {
                    value: None,
                    input: Some(input),
                } => Ok(input.into()),
                File {
                    value: None,
                    input: None,
                } => Err(D::Error::custom("missing field `value`, or `input`")),
                _ => Err(D::Error::custom(
                    "value and input are both given, expected one",
                )),
            }
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
