//! Golden files: inputs, parameters, and outputs that PyTorch computed from them in float64.
//!
//! Each file is one case in safetensors' format. Its metadata entry `case` is a JSON object with
//! the operator (`op`), its `attributes`, and the `shapes` of its tensors; the tensors are the f32
//! inputs and the float64 output `out`. Full-size cases leave out their input, which is
//! [`fill(x_seed, shape)`](crate::data::fill), and hold only some elements of their output, at
//! `index` of the flattened tensor, and its mean.

use std::path::{Path, PathBuf};

use op_spec::chain::ChainError;
use safetensors::tensor::{Dtype, SafeTensorError};

use crate::{Case, Expected, Precision};

mod reader;
mod tensors;

use reader::Header;
pub(crate) use reader::Reader;
use tensors::Tensors;

/// Why a golden file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// The folder cannot be listed.
    #[error("{}: cannot be listed", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a whole safetensors file.
    #[error("{}: is not a complete safetensors file", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where its structure breaks.
        source: SafeTensorError,
    },
    /// A tensor that is needed is not in the file.
    #[error("{}: tensor {name} is missing", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// The file has a tensor that the case has no use for.
    #[error("{}: has {name}, which the case lacks", .path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor has another shape than the description gives it.
    #[error("{}: {name} has shape {actual:?}, expected {expected:?}", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        actual: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// A tensor holds another element type.
    #[error("{}: {name} holds {actual:?}, expected {expected:?}", .path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its element type.
        actual: Dtype,
        /// The type that it should hold.
        expected: Dtype,
    },
    /// The file has no description of a case.
    #[error("{}: metadata has no entry `case`, so this is no golden file", .path.display())]
    NoCase {
        /// The file.
        path: PathBuf,
    },
    /// The description cannot be read.
    #[error("{}: the description of the case is not understood", .path.display())]
    Case {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// The description names an operator that this crate lacks.
    #[error("{}: operator is {op}, which is unknown", .path.display())]
    UnknownOperator {
        /// The file.
        path: PathBuf,
        /// Its operator.
        op: String,
    },
    /// A tensor's rank does not suit the operator.
    #[error("{}: {tensor} has {actual} dimensions, expected {expected}", .path.display())]
    Rank {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: &'static str,
        /// Its dimensions.
        actual: usize,
        /// The operator's.
        expected: usize,
    },
    /// The description's attributes and shapes do not fit together.
    #[error("{}: the case is refused: {source}", .path.display())]
    Chain {
        /// The file.
        path: PathBuf,
        /// By which rule.
        source: ChainError,
    },
    /// The output has another shape than the attributes and inputs give it.
    #[error("{}: out has shape {actual:?}, expected {expected:?}", .path.display())]
    OutputShape {
        /// The file.
        path: PathBuf,
        /// The file's shape.
        actual: Vec<usize>,
        /// The operator's.
        expected: Vec<usize>,
    },
    /// A shape has more elements than memory addresses.
    #[error("{}: shape {shape:?} has more elements than memory addresses", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The shape.
        shape: Vec<usize>,
    },
    /// A sampled element lies outside the output.
    #[error("{}: index is {index}, the output has {elements} elements", .path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The index.
        index: i64,
        /// Elements of the output.
        elements: usize,
    },
}

/// A case whose outputs PyTorch has computed.
#[derive(Clone, Debug)]
pub struct GoldenCase {
    /// The case; its name has the file's.
    pub case: Case,
    /// Mean of the whole output, where only some elements are known.
    pub mean: Option<f64>,
    path: PathBuf,
    output_shape: Vec<usize>,
    index: Option<Vec<usize>>,
    values: Vec<f64>,
}

impl GoldenCase {
    /// Whether this is one of the full-size problems, of which only some outputs are known.
    #[must_use]
    pub fn is_full_size(&self) -> bool {
        self.index.is_some()
    }

    /// PyTorch's values with the tolerance that `precision` asks for.
    ///
    /// # Errors
    /// [`GoldenError::Chain`] and [`GoldenError::OutputShape`] for files that contradict themselves.
    pub fn expected(&self, precision: &Precision) -> Result<Expected, GoldenError> {
        let reference = self.case.expected(precision);
        let reference = reference.map_err(|source| GoldenError::Chain {
            path: self.path.clone(),
            source,
        })?;
        if reference.shape() != self.output_shape {
            return Err(GoldenError::OutputShape {
                path: self.path.clone(),
                actual: self.output_shape.clone(),
                expected: reference.shape().to_vec(),
            });
        }
        let expected = reference.around(self.values.clone(), self.index.clone());
        Ok(match self.mean {
            Some(mean) => expected.with_mean(mean, &reference),
            None => expected,
        })
    }
}

/// The golden files of `folder`, sorted by name.
///
/// # Errors
/// [`GoldenError::Folder`].
pub fn files(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, GoldenError> {
    let folder = folder.as_ref();
    let list = || {
        std::fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()
    };
    let mut files = list().map_err(|source| GoldenError::Folder {
        path: folder.into(),
        source,
    })?;
    files.retain(|file| file.extension().is_some_and(|name| name == "safetensors"));
    files.sort();
    Ok(files)
}

/// Reads one golden file.
///
/// # Errors
/// [`GoldenError`].
pub fn load(path: impl AsRef<Path>) -> Result<GoldenCase, GoldenError> {
    let path = path.as_ref();
    let tensors = Tensors::read(path)?;
    let Some(text) = tensors.metadata("case") else {
        return Err(GoldenError::NoCase { path: path.into() });
    };
    let header: Header = serde_json::from_str(text).map_err(|source| GoldenError::Case {
        path: path.into(),
        source,
    })?;
    Reader {
        path: path.into(),
        tensors,
        header,
    }
    .golden_case()
}
