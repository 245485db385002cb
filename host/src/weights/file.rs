//! safetensors files: tensors taken out by name until none is left.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array, ArrayBase, Data, Dimension, IntoDimension};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, View};

/// Why parameters could not be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("weights: cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("weights: cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a whole safetensors file.
    #[error("weights: {} is not a complete safetensors file", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where its structure breaks.
        source: SafeTensorError,
    },
    /// A tensor that the model needs is not in the file.
    #[error("weights: {} has no {name}; its tensors are: {}", .path.display(), .present.join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// The tensors it has.
        present: Vec<String>,
    },
    /// The file has tensors that the model has no use for.
    #[error("weights: {} has {}, which the model lacks", .path.display(), .names.join(", "))]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The tensors.
        names: Vec<String>,
    },
    /// A tensor has another shape than the model's attributes give it.
    #[error("weights: {name} in {} has shape {actual:?}, expected {expected:?}", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// Its shape.
        actual: Vec<usize>,
        /// The shape of the model's parameter.
        expected: Vec<usize>,
    },
    /// A tensor does not hold f32.
    #[error("weights: {name} in {} holds {actual}, expected F32", .path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: &'static str,
        /// safetensors' name of its element type.
        actual: String,
    },
}

/// One tensor of a file.
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// The tensors of a file that nobody has taken yet.
pub(super) struct Tensors {
    path: PathBuf,
    left: BTreeMap<String, Tensor>,
    /// All names, for the message about one that is missing.
    names: Vec<String>,
}

impl Tensors {
    pub(super) fn read(path: &Path) -> Result<Self, WeightsError> {
        let bytes = fs::read(path).map_err(|source| WeightsError::Read {
            path: path.into(),
            source,
        })?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|source| WeightsError::Format {
            path: path.into(),
            source,
        })?;
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

    /// Takes out `name`, which must be f32 of exactly `shape`.
    pub(super) fn take<E: IntoDimension>(
        &mut self,
        name: &'static str,
        shape: E,
    ) -> Result<Array<f32, E::Dim>, WeightsError> {
        let path = self.path.clone();
        let Some(tensor) = self.left.remove(name) else {
            return Err(WeightsError::Missing {
                path,
                name,
                present: self.names.clone(),
            });
        };
        if tensor.dtype != Dtype::F32 {
            return Err(WeightsError::Dtype {
                path,
                name,
                actual: format!("{:?}", tensor.dtype),
            });
        }
        let shape = shape.into_dimension();
        if tensor.shape != shape.slice() {
            return Err(WeightsError::Shape {
                path,
                name,
                actual: tensor.shape,
                expected: shape.slice().to_vec(),
            });
        }
        let (words, _) = tensor.bytes.as_chunks();
        let values = words.iter().map(|&word| f32::from_le_bytes(word));
        Ok(Array::from_iter(values)
            .into_shape_with_order(shape)
            .expect("safetensors has checked the length against the shape"))
    }

    /// Refuses tensors that nobody took.
    pub(super) fn finish(self) -> Result<(), WeightsError> {
        if self.left.is_empty() {
            return Ok(());
        }
        Err(WeightsError::Unexpected {
            path: self.path,
            names: self.left.into_keys().collect(),
        })
    }
}

/// A tensor to be written.
pub(super) struct Entry {
    name: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn new<S: Data<Elem = f32>, D: Dimension>(
        name: &'static str,
        tensor: &ArrayBase<S, D>,
    ) -> Self {
        Self::with_shape(name, tensor, tensor.shape())
    }

    /// The same elements under another shape.
    pub(super) fn with_shape<S: Data<Elem = f32>, D: Dimension>(
        name: &'static str,
        tensor: &ArrayBase<S, D>,
        shape: impl Into<Vec<usize>>,
    ) -> Self {
        Self {
            name,
            shape: shape.into(),
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
pub(super) fn write(path: &Path, entries: &[Entry]) -> Result<(), WeightsError> {
    let failed = |source| WeightsError::Write {
        path: path.into(),
        source,
    };
    let views = entries.iter().map(|entry| (entry.name, entry));
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
