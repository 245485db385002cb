//! [safetensors](https://github.com/huggingface/safetensors) files of parameters, in which
//! nothing goes unnoticed that is no parameter's.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, ArrayViewD};
use op_spec::chain::Parameter;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};

/// Why tensors could not be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFileError {
    /// The file cannot be read.
    #[error("{}: cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written", .path.display())]
    Write {
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
    #[error("{}: tensor {name} is missing; the file has {}", .path.display(), .present.join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The tensors it has.
        present: Vec<String>,
    },
    /// The file has tensors that the model has no use for.
    #[error("{}: has {}, which the model lacks", .path.display(), .names.join(", "))]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The tensors.
        names: Vec<String>,
    },
    /// A tensor has another shape than the attributes give it.
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
    #[error("{}: {name} holds {actual}, expected {expected}", .path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// safetensors' name of its element type.
        actual: String,
        /// The name of the type that it should hold.
        expected: String,
    },
}

/// The values of `parameters`, which must be all that the file has: each f32, in exactly its parameter's shape.
pub(crate) fn read(
    path: &Path,
    parameters: &[Parameter],
) -> Result<Vec<ArrayD<f32>>, TensorFileError> {
    let at = || path.to_path_buf();
    let bytes = fs::read(path).map_err(|source| TensorFileError::Read { path: at(), source })?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|source| TensorFileError::Format { path: at(), source })?;
    let mut present: Vec<String> = file.names().into_iter().map(str::to_owned).collect();
    present.sort_unstable();
    let mut values = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let name = parameter.name.clone();
        let Ok(tensor) = file.tensor(&name) else {
            let path = at();
            return Err(TensorFileError::Missing {
                path,
                name,
                present,
            });
        };
        if tensor.dtype() != Dtype::F32 {
            return Err(TensorFileError::Dtype {
                path: at(),
                name,
                actual: format!("{:?}", tensor.dtype()),
                expected: format!("{:?}", Dtype::F32),
            });
        }
        if tensor.shape() != parameter.shape {
            return Err(TensorFileError::Shape {
                path: at(),
                name,
                actual: tensor.shape().to_vec(),
                expected: parameter.shape.clone(),
            });
        }
        let (words, _) = tensor.data().as_chunks();
        let words = words.iter().map(|&word| f32::from_le_bytes(word));
        values.push(
            ArrayD::from_shape_vec(parameter.shape.clone(), words.collect())
                .expect("safetensors has checked the length against the shape"),
        );
    }
    present.retain(|name| parameters.iter().all(|parameter| parameter.name != *name));
    if present.is_empty() {
        return Ok(values);
    }
    Err(TensorFileError::Unexpected {
        path: at(),
        names: present,
    })
}

/// Writes a whole file beside `path` and moves it there, so that no reader meets half of one.
pub(crate) fn write<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, ArrayViewD<'a, f32>)>,
) -> Result<(), TensorFileError> {
    let failed = |source| TensorFileError::Write {
        path: path.into(),
        source,
    };
    let owned = tensors.into_iter().map(|(name, values)| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        (name, values.shape().to_vec(), bytes)
    });
    let owned: Vec<_> = owned.collect();
    let views = owned.iter().map(|(name, shape, bytes)| {
        TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (*name, view))
    });
    let views: Result<Vec<_>, _> = views.collect();
    let bytes = views
        .and_then(|views| safetensors::serialize(views, None))
        .map_err(|source| failed(std::io::Error::other(source)))?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    fs::write(&partial, bytes)
        .and_then(|()| fs::rename(&partial, path))
        .map_err(|source| {
            // The name is ours alone; a leftover of it helps nobody.
            let _ = fs::remove_file(&partial);
            failed(source)
        })
}
