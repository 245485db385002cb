use op_spec::graph::GraphError;
use safetensors::tensor::{Dtype, SafeTensorError};

/// What is wrong with a golden file.
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
    /// A tensor that is needed is not in the file.
    #[error("tensor {name} is missing")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// The file has a tensor that the case has no use for.
    #[error("has {name}, which the case lacks")]
    Unexpected {
        /// The tensor.
        name: String,
    },
    /// A tensor has another shape than the description gives it.
    #[error("{name} has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        actual: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// A tensor holds another element type.
    #[error("{name} holds {actual:?}, expected {expected:?}")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its element type.
        actual: Dtype,
        /// The type that it should hold.
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
        /// Its operator.
        op: String,
    },
    /// A tensor's rank does not suit the operator.
    #[error("{tensor} has {actual} dimensions, expected {expected}")]
    Rank {
        /// The tensor.
        tensor: &'static str,
        /// Its dimensions.
        actual: usize,
        /// The operator's.
        expected: usize,
    },
    /// The description's attributes and shapes do not fit together.
    #[error("the case is refused: {0}")]
    Chain(#[source] GraphError),
    /// The output has another shape than the attributes and inputs give it.
    #[error("out has shape {actual:?}, expected {expected:?}")]
    OutputShape {
        /// The file's shape.
        actual: Vec<usize>,
        /// The operator's.
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
        /// The index.
        index: i64,
        /// Elements of the output.
        elements: usize,
    },
}
