//! [safetensors](https://github.com/huggingface/safetensors) files: tensors taken out by name until
//! none is left, so that nothing in a file goes unnoticed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array, Array1, ArrayBase, Data, Dimension, IntoDimension};
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
        name: &'static str,
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
        name: &'static str,
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
        name: &'static str,
        /// safetensors' name of its element type.
        actual: String,
        /// The name of the type that it should hold.
        expected: String,
    },
}

/// An element type that files may hold.
pub(crate) trait Element: Sized {
    const DTYPE: Dtype;
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! element {
    ($type:ty, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn read(bytes: &[u8]) -> Vec<Self> {
                let (words, _) = bytes.as_chunks();
                words
                    .iter()
                    .map(|&word| Self::from_le_bytes(word))
                    .collect()
            }
        }
    };
}

element!(f32, F32);
element!(f64, F64);
element!(i64, I64);

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
    metadata: HashMap<String, String>,
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
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(format)?;
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
            metadata: header.metadata().clone().unwrap_or_default(),
            names: left.keys().cloned().collect(),
            left,
        })
    }

    /// The text stored beside the tensors under `key`.
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Takes out `name`, which must hold `T` in exactly `shape`.
    pub(crate) fn take<T: Element, E: IntoDimension>(
        &mut self,
        name: &'static str,
        shape: E,
    ) -> Result<Array<T, E::Dim>, TensorFileError> {
        let path = self.path.clone();
        let Some(tensor) = self.left.remove(name) else {
            return Err(TensorFileError::Missing {
                path,
                name,
                present: self.names.clone(),
            });
        };
        if tensor.dtype != T::DTYPE {
            return Err(TensorFileError::Dtype {
                path,
                name,
                actual: format!("{:?}", tensor.dtype),
                expected: format!("{:?}", T::DTYPE),
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
        Ok(Array::from_shape_vec(shape, T::read(&tensor.bytes))
            .expect("safetensors has checked the length against the shape"))
    }

    /// Takes out `name`, which must hold `T` in one dimension of any extent.
    pub(crate) fn take_vector<T: Element>(
        &mut self,
        name: &'static str,
    ) -> Result<Array1<T>, TensorFileError> {
        let len = self
            .left
            .get(name)
            .map_or(0, |tensor| tensor.shape.iter().product());
        self.take(name, len)
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
    name: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Entry {
    pub(crate) fn new<S: Data<Elem = f32>, D: Dimension>(
        name: &'static str,
        tensor: &ArrayBase<S, D>,
    ) -> Self {
        Self::with_shape(name, tensor, tensor.shape())
    }

    /// The same elements under another shape.
    pub(crate) fn with_shape<S: Data<Elem = f32>, D: Dimension>(
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

/// Writes one tensor under a name, replacing the file only once it is complete.
///
/// # Errors
/// [`TensorFileError::Write`].
pub fn save<S: Data<Elem = f32>, D: Dimension>(
    path: &Path,
    name: &'static str,
    tensor: &ArrayBase<S, D>,
) -> Result<(), TensorFileError> {
    write(path, &[Entry::new(name, tensor)])
}

/// Writes a whole file beside `path` and moves it there, so that no reader meets half of one.
pub(crate) fn write(path: &Path, entries: &[Entry]) -> Result<(), TensorFileError> {
    let failed = |source| TensorFileError::Write {
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
