//! [safetensors](https://github.com/huggingface/safetensors) files of parameters. A tensor that matches no
//! parameter is an error, unless the options allow it.

pub(crate) mod given;
mod options;
mod reader;

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::ArrayViewD;
use safetensors::tensor::{Dtype, SafeTensorError, View};

use crate::dtype::as_bytes;

use given::{ParametersError, listed};
pub use options::LoadOptions;
pub(crate) use reader::{Source, read};

/// Errors of loading and saving tensors. `path` is the file, or `(bytes)` for a file in memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFileError {
    /// The file cannot be read.
    #[error("{}: cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is an archive, not a safetensors file.
    #[error("{}: is a zip archive, as torch.save and numpy.savez write, must be a safetensors file: safetensors.torch.save_file(model.state_dict(), PATH) writes one", .path.display())]
    Archive {
        /// The file.
        path: PathBuf,
    },
    /// The file is an array of NumPy, not a safetensors file.
    #[error("{}: is one array of NumPy, .npy, must be a safetensors file: safetensors.numpy.save_file({{NAME: array}}, PATH) writes one", .path.display())]
    Array {
        /// The file.
        path: PathBuf,
    },
    /// The file is a pickle, not a safetensors file.
    #[error("{}: is a pickle, as torch.save of old versions writes, must be a safetensors file: safetensors.torch.save_file(model.state_dict(), PATH) writes one", .path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a complete safetensors file.
    #[error("{}: is not a complete safetensors file", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error in its structure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not an index of several safetensors files.
    #[error("{}: is no index of safetensors files, an object whose weight_map has the file of each tensor", .path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// The error in its structure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An index names a file outside of its own folder.
    #[error("{}: {name} is in {shard:?}, must be a file in the folder of the index", .path.display())]
    OutsideFolder {
        /// The index.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The file that the index names.
        shard: String,
    },
    /// An index and the file that it names for a tensor do not agree.
    #[error("{}: {name} {}", .path.display(), if *.listed { "is not there, the index names this file for it" } else { "is there, the index does not name this file for it" })]
    OtherIndex {
        /// The file that the index names.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// True if the index lists the tensor but the file lacks it; false in the opposite case.
        listed: bool,
    },
    /// The tensors of the file do not match the graph's parameters.
    #[error("{}: {defect}", .path.display())]
    Parameters {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        defect: ParametersError,
    },
    /// No tensor's name begins with the prefix.
    #[error("{}: no tensor's name begins with {prefix}; given: {}", .path.display(), listed(.given))]
    Prefix {
        /// The file.
        path: PathBuf,
        /// The [prefix](LoadOptions::prefix).
        prefix: String,
        /// The names of the file's tensors.
        given: Vec<String>,
    },
    /// A tensor holds another element type.
    #[error("{}: {name} holds {actual}, expected {expected}", .path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its element type, by safetensors' name.
        actual: String,
        /// The expected element types.
        expected: String,
    },
}

/// The values of a tensor to write.
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
            // The file's byte order is the machine's, so no copy is needed.
            Some(values) if cfg!(target_endian = "little") => Cow::Borrowed(as_bytes(values)),
            _ => Cow::Owned(self.0.iter().flat_map(|v| v.to_le_bytes()).collect()),
        }
    }

    fn data_len(&self) -> usize {
        self.0.len() * size_of::<f32>()
    }
}

/// Writes a file beside `path` and renames it, so that readers see either the old or the new file.
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
    // If `path` is a link, its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut partial = target.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    safetensors::serialize_to_file(tensors, None, &partial)
        .map_err(|error| match error {
            SafeTensorError::IoError(source) => source,
            other => std::io::Error::other(other),
        })
        // Syncing before the rename keeps the file intact even if the machine fails.
        .and_then(|()| fs::File::open(&partial)?.sync_all())
        .and_then(|()| fs::rename(&partial, target))
        .map_err(|source| {
            // The partial file's name is unique to this call, so removing it is safe.
            let _ = fs::remove_file(&partial);
            failed(source)
        })
}
