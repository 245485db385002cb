//! Errors of the inputs of a graph.

use super::Error;

/// Further inputs that do not match the graph's ([`Graph::inputs`](crate::graph::Graph::inputs)).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputsError {
    /// An input is missing.
    #[error(
        "{operator}: input {name} is missing, which a layer of the model takes; given besides the first: {}",
        list(given)
    )]
    Missing {
        /// The operator's name.
        operator: &'static str,
        /// The name of the input.
        name: String,
        /// The names of the further inputs that are given.
        given: Vec<String>,
    },
    /// The graph has no input of this name.
    #[error(
        "{operator}: there is no input {name}; the model's inputs besides the first: {}",
        list(known)
    )]
    Unknown {
        /// The operator's name.
        operator: &'static str,
        /// The name of the input.
        name: String,
        /// The names of the model's further inputs.
        known: Vec<String>,
    },
    /// The number of given addresses differs from the number of inputs.
    #[error("{operator}: there are {actual} inputs, must be {expected}")]
    Count {
        /// The operator's name.
        operator: &'static str,
        /// The number of given inputs.
        actual: usize,
        /// The number of the model's inputs.
        expected: usize,
    },
    /// The number of given addresses differs from the number of outputs.
    #[error("{operator}: there are {actual} outputs, must be {expected}")]
    Outputs {
        /// The operator's name.
        operator: &'static str,
        /// The number of given outputs.
        actual: usize,
        /// The number of outputs of a run: the graph's output and the renewed parameters.
        expected: usize,
    },
    /// An input is given twice.
    #[error("{operator}: input {name} is given twice, must be once")]
    Repeated {
        /// The operator's name.
        operator: &'static str,
        /// The name of the input.
        name: String,
    },
}

/// Joins the names of inputs.
fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

impl Error {
    /// Names the input in an error about an argument. Other errors, such as a device's, are returned
    /// unchanged.
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
