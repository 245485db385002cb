//! What is wrong with the inputs of a graph.

use super::Error;

/// Further inputs that are not those of a graph ([`Graph::inputs`](crate::graph::Graph::inputs)).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputsError {
    /// One is missing.
    #[error(
        "{operator}: input {name} is missing, which a layer of the model takes; given besides the first: {}",
        list(given)
    )]
    Missing {
        /// The operator's name.
        operator: &'static str,
        /// The input.
        name: String,
        /// The names of the further inputs that are given.
        given: Vec<String>,
    },
    /// The graph has none of this name.
    #[error(
        "{operator}: there is no input {name}; the model's inputs besides the first: {}",
        list(known)
    )]
    Unknown {
        /// The operator's name.
        operator: &'static str,
        /// The input.
        name: String,
        /// The names of the model's further inputs.
        known: Vec<String>,
    },
    /// A number of addresses that is not the number of inputs.
    #[error("{operator}: there are {actual} inputs, must be {expected}")]
    Count {
        /// The operator's name.
        operator: &'static str,
        /// Inputs that were given.
        actual: usize,
        /// Inputs of the model.
        expected: usize,
    },
    /// A number of addresses that is not the number of outputs.
    #[error("{operator}: there are {actual} outputs, must be {expected}")]
    Outputs {
        /// The operator's name.
        operator: &'static str,
        /// Outputs that were given.
        actual: usize,
        /// Outputs of a run: the graph's, and parameters that are renewed.
        expected: usize,
    },
    /// One is given twice.
    #[error("{operator}: input {name} is given twice, must be once")]
    Repeated {
        /// The operator's name.
        operator: &'static str,
        /// The input.
        name: String,
    },
}

/// The names of inputs.
fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

impl Error {
    /// The same error, said of a further input of a graph where it is one about an argument. What a device
    /// runs into stays what it is.
    pub(crate) fn of_input(self, name: &str) -> Error {
        match self {
            Error::DeviceMismatch { .. }
            | Error::DTypeMismatch { .. }
            | Error::ShapeMismatch { .. }
            | Error::LayoutMismatch { .. }
            | Error::NotContiguous { .. }
            | Error::TensorInUse { .. }
            | Error::Spec(_) => Error::NamedInput {
                name: name.to_owned(),
                error: Box::new(self),
            },
            other => other,
        }
    }
}
