use op_spec::graph::GraphError;
use safetensors::tensor::{Dtype, SafeTensorError};

/// A flaw of a golden file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenFlaw {
    /// The folder cannot be listed.
    #[error("cannot be listed")]
    Folder(#[source] std::io::Error),
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] std::io::Error),
    /// The file is not a whole safetensors file.
    #[error("is not a complete safetensors file")]
    Format(#[source] SafeTensorError),
    /// The file lacks a required tensor.
    #[error("tensor {name} is missing")]
    Missing {
        /// The tensor's name.
        name: String,
    },
    /// The file has a tensor that the case does not use.
    #[error("has {name}, which the case lacks")]
    Unexpected {
        /// The tensor's name.
        name: String,
    },
    /// The shape of a tensor differs from the description.
    #[error("{name} has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The actual shape.
        actual: Vec<usize>,
        /// The shape in the description.
        expected: Vec<usize>,
    },
    /// The element type of a tensor differs.
    #[error("{name} holds {actual:?}, expected {expected:?}")]
    Dtype {
        /// The tensor's name.
        name: String,
        /// The actual element type.
        actual: Dtype,
        /// The expected element type.
        expected: Dtype,
    },
    /// The file has no description of a case.
    #[error("metadata has no entry `case`, so this is no golden file")]
    NoCase,
    /// The description cannot be read.
    #[error("the description of the case is not understood")]
    Case(#[source] serde_json::Error),
    /// The description names an operator that this crate lacks.
    #[error("operator is {op}, which is unknown")]
    UnknownOperator {
        /// The operator's name.
        op: String,
    },
    /// A tensor's rank does not suit the operator.
    #[error("{tensor} has {actual} dimensions, expected {expected}")]
    Rank {
        /// The tensor's name.
        tensor: &'static str,
        /// The actual number of dimensions.
        actual: usize,
        /// The expected number of dimensions.
        expected: usize,
    },
    /// The description's attributes and shapes are inconsistent.
    #[error("the case is refused: {0}")]
    Chain(#[source] GraphError),
    /// The shape of the output differs from that given by attributes and inputs.
    #[error("out has shape {actual:?}, expected {expected:?}")]
    OutputShape {
        /// The shape in the file.
        actual: Vec<usize>,
        /// The shape given by the operator.
        expected: Vec<usize>,
    },
    /// A shape has more elements than memory addresses.
    #[error("shape {shape:?} has more elements than memory addresses")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A sampled element lies outside the output.
    #[error("index is {index}, the output has {elements} elements")]
    Index {
        /// The index in the flattened output.
        index: i64,
        /// The number of elements of the output.
        elements: usize,
    },
}
