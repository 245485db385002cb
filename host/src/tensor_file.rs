//! [safetensors](https://github.com/huggingface/safetensors) files: tensors taken out by name until
//! none is left, so that nothing in a file goes unnoticed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array, ArrayBase, Data, Dimension, IntoDimension};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, View};

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

/// One tensor of a file.
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// The tensors of a file that nobody has taken yet.
pub(crate) struct Tensors {
    path: PathBuf,
    left: BTreeMap<String, Tensor>,
    /// All names, for the message about one that is missing.
    names: Vec<String>,
}

impl Tensors {
    pub(crate) fn read(path: &Path) -> Result<Self, TensorFileError> {
        let bytes = fs::read(path).map_err(|source| TensorFileError::Read {
            path: path.into(),
            source,
        })?;
        let format = |source| TensorFileError::Format {
            path: path.into(),
            source,
        };
        let tensors = SafeTensors::deserialize(&bytes).map_err(format)?;
        let left: BTreeMap<_, _> = tensors
            .iter()
            .map(|(name, view)| {
                let tensor = Tensor {
                    dtype: view.dtype(),
                    shape: view.shape().to_vec(),
                    bytes: view.data().to_vec(),
                };
                (name.to_owned(), tensor)
            })
            .collect();
        Ok(Self {
            path: path.into(),
            names: left.keys().cloned().collect(),
            left,
        })
    }

    /// Takes out `name`, which must hold f32 in exactly `shape`.
    pub(crate) fn take<E: IntoDimension>(
        &mut self,
        name: &str,
        shape: E,
    ) -> Result<Array<f32, E::Dim>, TensorFileError> {
        let (path, name) = (self.path.clone(), name.to_owned());
        let Some(tensor) = self.left.remove(&name) else {
            return Err(TensorFileError::Missing {
                path,
                name,
                present: self.names.clone(),
            });
        };
        if tensor.dtype != Dtype::F32 {
            return Err(TensorFileError::Dtype {
                path,
                name,
                actual: format!("{:?}", tensor.dtype),
                expected: format!("{:?}", Dtype::F32),
            });
        }
        let shape = shape.into_dimension();
        if tensor.shape != shape.slice() {
            return Err(TensorFileError::Shape {
                path,
                name,
                actual: tensor.shape,
                expected: shape.slice().to_vec(),
            });
        }
        let (words, _) = tensor.bytes.as_chunks();
        let values = words.iter().map(|&word| f32::from_le_bytes(word));
        Ok(Array::from_shape_vec(shape, values.collect())
            .expect("safetensors has checked the length against the shape"))
    }

    /// Refuses tensors that nobody took.
    pub(crate) fn finish(self) -> Result<(), TensorFileError> {
        if self.left.is_empty() {
            return Ok(());
        }
        Err(TensorFileError::Unexpected {
            path: self.path,
            names: self.left.into_keys().collect(),
        })
    }
}

/// A tensor to be written.
pub(crate) struct Entry {
    name: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Entry {
    pub(crate) fn new<S: Data<Elem = f32>, D: Dimension>(
        name: &str,
        tensor: &ArrayBase<S, D>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            shape: tensor.shape().to_vec(),
            bytes: tensor.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
}

impl View for &Entry {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes a whole file beside `path` and moves it there, so that no reader meets half of one.
pub(crate) fn write(path: &Path, entries: &[Entry]) -> Result<(), TensorFileError> {
    let failed = |source| TensorFileError::Write {
        path: path.into(),
        source,
    };
    let views = entries.iter().map(|entry| (&entry.name, entry));
    let bytes = safetensors::serialize(views, None)
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
