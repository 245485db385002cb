//! [safetensors](https://github.com/huggingface/safetensors) files of parameters, in which
//! nothing goes unnoticed that is no parameter's.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, ArrayViewD};
use op_spec::chain::Parameter;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, View};

use crate::dtype::as_bytes;
use crate::host_memory::affordable;
use crate::parameters::{ParametersError, collected, in_order};

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
    /// What the file holds is not the chain's parameters.
    #[error("{}: {defect}", .path.display())]
    Parameters {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        defect: ParametersError,
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
    let defective = |defect| TensorFileError::Parameters { path: at(), defect };
    let read = || {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            // Reading a pipe or a device might never end.
            let text = "is no ordinary file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        affordable(metadata.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        fs::read(path)
    };
    let bytes = read().map_err(|source| TensorFileError::Read { path: at(), source })?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|source| TensorFileError::Format { path: at(), source })?;
    let tensors = in_order(parameters, file.tensors(), |tensor| tensor.shape());
    let value = |(parameter, tensor): (&Parameter, TensorView<'_>)| {
        if tensor.dtype() != Dtype::F32 {
            return Err(TensorFileError::Dtype {
                path: at(),
                name: parameter.name.clone(),
                actual: format!("{:?}", tensor.dtype()),
                expected: format!("{:?}", Dtype::F32),
            });
        }
        let (words, _) = tensor.data().as_chunks();
        // As many as the shape says, which safetensors has checked.
        let words = words.iter().map(|&word| f32::from_le_bytes(word));
        collected(parameter, words).map_err(defective)
    };
    let tensors = tensors.map_err(defective)?;
    parameters.iter().zip(tensors).map(value).collect()
}

/// Values to be written.
struct Values<'a>(ArrayViewD<'a, f32>);

impl View for Values<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.0.as_slice() {
            // Files have the bytes in this order, too: nothing is copied.
            Some(values) if cfg!(target_endian = "little") => Cow::Borrowed(as_bytes(values)),
            _ => Cow::Owned(self.0.iter().flat_map(|v| v.to_le_bytes()).collect()),
        }
    }

    fn data_len(&self) -> usize {
        self.0.len() * size_of::<f32>()
    }
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
    let tensors = tensors
        .into_iter()
        .map(|(name, values)| (name, Values(values)));
    // A link stays a link, and the file that it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut partial = target.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    safetensors::serialize_to_file(tensors, None, &partial)
        .map_err(|error| match error {
            SafeTensorError::IoError(source) => source,
            other => std::io::Error::other(other),
        })
        // What is moved is on the disk, whatever happens to the machine.
        .and_then(|()| fs::File::open(&partial)?.sync_all())
        .and_then(|()| fs::rename(&partial, target))
        .map_err(|source| {
            // The name is ours alone; a leftover of it helps nobody.
            let _ = fs::remove_file(&partial);
            failed(source)
        })
}
