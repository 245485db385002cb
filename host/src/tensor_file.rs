//! [safetensors](https://github.com/huggingface/safetensors) files of parameters. Tensors that belong to no
//! parameter are errors, unless options allow them.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, ArrayViewD};
use op_spec::graph::Parameter;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, TensorInfo, View};

use crate::dtype::{as_bytes, bf16, f16};
use crate::host_memory::reserve;
use crate::parameters::given::{ParametersError, collected, in_order};

/// Errors of loading and saving tensors.
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
        /// The error in its structure.
        source: SafeTensorError,
    },
    /// What the file holds is not the graph's parameters.
    #[error("{}: {defect}", .path.display())]
    Parameters {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        defect: ParametersError,
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

/// Options for loading parameters from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct LoadOptions {
    prefix: String,
    is_strict: bool,
}

impl Default for LoadOptions {
    /// All tensors of the file, under the parameters' names.
    fn default() -> LoadOptions {
        LoadOptions {
            prefix: String::new(),
            is_strict: true,
        }
    }
}

impl LoadOptions {
    /// The prefix of the parameters' names in the file, such as `decoder.blocks.2.`. Tensors without it are
    /// ignored.
    pub fn prefix(mut self, prefix: impl Into<String>) -> LoadOptions {
        self.prefix = prefix.into();
        self
    }

    /// Whether tensors with the prefix that belong to no parameter are refused. Missing parameters are always
    /// refused.
    pub fn strict(mut self, is_strict: bool) -> LoadOptions {
        self.is_strict = is_strict;
        self
    }
}

/// The values of `parameters` in the file at `path`, in the parameters' shapes: f32, or f16 and bf16, which
/// are widened to f32. Only the file's header and these tensors are read.
pub(crate) fn read(
    path: &Path,
    parameters: &[Parameter],
    options: &LoadOptions,
) -> Result<Vec<ArrayD<f32>>, TensorFileError> {
    let at = || path.to_path_buf();
    let defective = |defect| TensorFileError::Parameters { path: at(), defect };
    let unread = |source| TensorFileError::Read { path: at(), source };
    let (mut file, len) = open(path).map_err(unread)?;
    let (start, head) = head(&mut file, len).map_err(|flaw| match flaw {
        HeadFlaw::Io(source) => unread(source),
        HeadFlaw::Format(source) => TensorFileError::Format { path: at(), source },
    })?;
    let named: Vec<Parameter> = parameters
        .iter()
        .cloned()
        .map(|mut parameter| {
            parameter.name.insert_str(0, &options.prefix);
            parameter
        })
        .collect();
    let given = head.tensors().into_iter();
    let given = given.filter(|(name, _)| name.starts_with(&options.prefix));
    let tensors = in_order(&named, given, |tensor| &tensor.shape, options.is_strict);
    let value = |(parameter, tensor): (&Parameter, &TensorInfo)| {
        let widen = match tensor.dtype {
            Dtype::F32 => |bytes: &[u8]| f32::from_le_bytes(word(bytes)),
            Dtype::F16 => |bytes: &[u8]| f16::from_le_bytes(word(bytes)).to_f32(),
            Dtype::BF16 => |bytes: &[u8]| bf16::from_le_bytes(word(bytes)).to_f32(),
            other => {
                return Err(TensorFileError::Dtype {
                    path: at(),
                    name: parameter.name.clone(),
                    actual: format!("{other:?}"),
                    expected: "F32, F16 or BF16".to_owned(),
                });
            }
        };
        let (from, to) = tensor.data_offsets;
        let bytes = bytes_at(&mut file, start + from as u64, to - from).map_err(unread)?;
        // As many as the shape's elements, which the header's check ensures.
        let values = bytes.chunks_exact(tensor.dtype.bitsize() / 8).map(widen);
        collected(parameter, values).map_err(defective)
    };
    let tensors = tensors.map_err(defective)?;
    named.iter().zip(tensors).map(value).collect()
}

/// The file, and its length in bytes.
fn open(path: &Path) -> io::Result<(fs::File, u64)> {
    // Opening a pipe, or reading a device, might never end.
    if !fs::metadata(path)?.is_file() {
        let text = "is no ordinary file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let file = fs::File::open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

/// Errors of reading a file's header.
enum HeadFlaw {
    Io(io::Error),
    Format(SafeTensorError),
}

/// The largest header, by the format.
const MOST_HEAD: u64 = 100_000_000;

/// The offset of the data in a file of `len` bytes, and its tensors, which must cover all of the data.
fn head(file: &mut fs::File, len: u64) -> Result<(u64, Metadata), HeadFlaw> {
    let flaw = |flaw| Err(HeadFlaw::Format(flaw));
    const COUNT: u64 = size_of::<u64>() as u64;
    if len < COUNT {
        return flaw(SafeTensorError::HeaderTooSmall);
    }
    let count = bytes_at(file, 0, COUNT as usize).map_err(HeadFlaw::Io)?;
    let head_len = u64::from_le_bytes(word(&count));
    if head_len > MOST_HEAD {
        return flaw(SafeTensorError::HeaderTooLarge);
    }
    let start = COUNT + head_len;
    if start > len {
        return flaw(SafeTensorError::InvalidHeaderLength);
    }
    let text = bytes_at(file, COUNT, head_len as usize).map_err(HeadFlaw::Io)?;
    let head: Metadata = serde_json::from_slice(&text)
        .map_err(|error| HeadFlaw::Format(SafeTensorError::InvalidHeaderDeserialization(error)))?;
    match start.checked_add(head.data_len() as u64) == Some(len) {
        true => Ok((start, head)),
        false => flaw(SafeTensorError::MetadataIncompleteBuffer),
    }
}

/// Bytes of a file.
fn bytes_at(file: &mut fs::File, start: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = reserve(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(len, 0);
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The bytes of one number.
fn word<const LEN: usize>(bytes: &[u8]) -> [u8; LEN] {
    let mut word = [0; LEN];
    word.copy_from_slice(bytes);
    word
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
            // The file's byte order is the machine's: nothing is copied.
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
        // The data is on disk before the rename, even if the machine fails.
        .and_then(|()| fs::File::open(&partial)?.sync_all())
        .and_then(|()| fs::rename(&partial, target))
        .map_err(|source| {
            // The name is unique to this call, so the file is removed.
            let _ = fs::remove_file(&partial);
            failed(source)
        })
}
