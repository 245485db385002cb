//! Reads parameters from one file, from several files with an index, or from bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use ndarray::ArrayD;
use op_spec::graph::{Graph, Parameter};
use safetensors::tensor::{Dtype, Metadata, SafeTensorError};
use serde::Deserialize;

use super::given::{Given, check_shapes, collected, in_order};
use super::{LoadOptions, TensorFileError};
use crate::dtype::{bf16, f16};
use crate::host_memory::reserve;

/// The source of parameters.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A safetensors file, or an index of several.
    Path(&'a Path),
    /// A safetensors file in memory.
    Bytes(&'a [u8]),
}

/// Reads the values of a graph's parameters, in the order and shapes of its table, rounded to the options'
/// element type. Only the files' headers and the needed tensors are read.
pub(crate) fn read(
    source: Source<'_>,
    graph: &Graph,
    options: &LoadOptions,
) -> Result<Vec<ArrayD<f32>>, TensorFileError> {
    let mut files = Files::open(source)?;
    let at = files.path.clone();
    let is_known = |(name, _): &(String, usize)| name.starts_with(&options.prefix);
    let is_empty = graph.parameters().is_empty() || files.names.is_empty();
    if !is_empty && !files.names.iter().any(is_known) {
        let mut given: Vec<String> = files.names.into_iter().map(|(name, _)| name).collect();
        given.sort_unstable();
        return Err(TensorFileError::Prefix {
            path: at,
            prefix: options.prefix.clone(),
            given,
        });
    }
    let defective = |defect| TensorFileError::Parameters {
        path: at.clone(),
        defect,
    };
    let given = files.names.iter().filter_map(|(name, file)| {
        Some(Given {
            found_as: name.clone(),
            name: options.parameter(name)?,
            value: (name.clone(), *file),
        })
    });
    let tensors = in_order(graph, given, options).map_err(defective)?;
    let table = graph.parameters();
    let shapes = tensors.iter().map(|(name, file)| files.shape(*file, name));
    let shapes: Vec<Vec<usize>> = shapes.collect::<Result<_, _>>()?;
    let named = tensors.iter().zip(&shapes).zip(table);
    let named = named.map(|(((name, _), shape), parameter)| (parameter, &**name, &**shape));
    check_shapes(named).map_err(defective)?;
    let values = table.iter().zip(tensors);
    let values =
        values.map(|(parameter, (name, file))| files.file(file)?.value(parameter, &name, options));
    values.collect()
}

/// The files of one set of parameters.
struct Files<'a> {
    /// The path of the one file, or of the index.
    path: PathBuf,
    /// The name of every tensor, with the number of its file.
    names: Vec<(String, usize)>,
    files: Vec<Shard<'a>>,
}

/// One file, opened when its first tensor is read.
enum Shard<'a> {
    Closed(PathBuf),
    Open(TensorFile<'a>),
}

/// The content of an index file.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl<'a> Files<'a> {
    fn open(source: Source<'a>) -> Result<Files<'a>, TensorFileError> {
        let file = match source {
            Source::Bytes(bytes) => TensorFile::new("(bytes)".into(), Bytes::Memory(bytes))?,
            Source::Path(path) if path.extension().is_some_and(|end| end == "json") => {
                return Files::indexed(path);
            }
            Source::Path(path) => TensorFile::open(path)?,
        };
        Ok(Files {
            path: file.path.clone(),
            names: file
                .head
                .tensors()
                .into_keys()
                .map(|name| (name, 0))
                .collect(),
            files: vec![Shard::Open(file)],
        })
    }

    fn indexed(path: &Path) -> Result<Files<'a>, TensorFileError> {
        let read = Bytes::open(path).and_then(|mut bytes| bytes.all());
        let text = read.map_err(|source| TensorFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        let index = serde_json::from_slice(&text);
        let Index { weight_map } = index.map_err(|source| TensorFileError::Index {
            path: path.to_owned(),
            source: source.into(),
        })?;
        let mut shards: Vec<String> = Vec::new();
        let mut names = Vec::with_capacity(weight_map.len());
        for (name, shard) in weight_map {
            let mut parts = Path::new(&shard).components();
            let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
            if !is_inside || shard.is_empty() {
                return Err(TensorFileError::OutsideFolder {
                    path: path.to_owned(),
                    name,
                    shard,
                });
            }
            let known = shards.iter().position(|known| *known == shard);
            names.push((name, known.unwrap_or(shards.len())));
            if known.is_none() {
                shards.push(shard);
            }
        }
        let closed = |shard| Shard::Closed(path.with_file_name("").join(shard));
        Ok(Files {
            path: path.to_owned(),
            names,
            files: shards.into_iter().map(closed).collect(),
        })
    }

    /// Returns the shape of a file's tensor.
    fn shape(&mut self, file: usize, name: &str) -> Result<Vec<usize>, TensorFileError> {
        let tensor = self.file(file)?.head.info(name);
        Ok(tensor.expect("the file has the tensor").shape.clone())
    }

    /// Returns a file, opened. On opening, checks that its tensors are the ones that the index lists.
    fn file(&mut self, number: usize) -> Result<&mut TensorFile<'a>, TensorFileError> {
        if let Shard::Closed(path) = &self.files[number] {
            let file = TensorFile::open(path)?;
            let listed = self.names.iter().filter(|(_, file)| *file == number);
            let listed: Vec<&str> = listed.map(|(name, _)| name.as_str()).collect();
            let differ = |name: &str, is_listed| TensorFileError::OtherIndex {
                path: path.clone(),
                name: name.to_owned(),
                listed: is_listed,
            };
            if let Some(name) = listed.iter().find(|name| file.head.info(name).is_none()) {
                return Err(differ(name, true));
            }
            let there = file.head.offset_keys();
            if let Some(name) = there.iter().find(|name| !listed.contains(&name.as_str())) {
                return Err(differ(name, false));
            }
            self.files[number] = Shard::Open(file);
        }
        match &mut self.files[number] {
            Shard::Open(file) => Ok(file),
            Shard::Closed(_) => unreachable!("it was opened"),
        }
    }
}

/// A safetensors file whose header was read.
struct TensorFile<'a> {
    path: PathBuf,
    bytes: Bytes<'a>,
    /// The offset in bytes of the data.
    start: u64,
    head: Metadata,
}

impl<'a> TensorFile<'a> {
    fn open(path: &Path) -> Result<TensorFile<'a>, TensorFileError> {
        let bytes = Bytes::open(path).map_err(|source| TensorFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        TensorFile::new(path.to_owned(), bytes)
    }

    fn new(path: PathBuf, mut bytes: Bytes<'a>) -> Result<TensorFile<'a>, TensorFileError> {
        match head(&mut bytes) {
            Ok((start, head)) => Ok(TensorFile {
                path,
                bytes,
                start,
                head,
            }),
            Err(HeadFlaw::Io(source)) => Err(TensorFileError::Read { path, source }),
            Err(HeadFlaw::Archive) => Err(TensorFileError::Archive { path }),
            Err(HeadFlaw::Array) => Err(TensorFileError::Array { path }),
            Err(HeadFlaw::Pickle) => Err(TensorFileError::Pickle { path }),
            Err(HeadFlaw::Format(source)) => Err(TensorFileError::Format {
                path,
                source: source.into(),
            }),
        }
    }

    /// Reads the value of a parameter from the tensor of this name, which has the parameter's shape.
    fn value(
        &mut self,
        parameter: &Parameter,
        name: &str,
        options: &LoadOptions,
    ) -> Result<ArrayD<f32>, TensorFileError> {
        let TensorFile {
            path,
            bytes,
            start,
            head,
        } = self;
        let defective = |defect| TensorFileError::Parameters {
            path: path.clone(),
            defect,
        };
        let tensor = head.info(name).expect("the file has the tensor");
        let dtype = options.dtype;
        let widen: fn(&[u8]) -> f64 = match tensor.dtype {
            Dtype::F64 => |bytes| f64::from_le_bytes(word(bytes)),
            Dtype::F32 => |bytes| f32::from_le_bytes(word(bytes)).into(),
            Dtype::F16 => |bytes| f16::from_le_bytes(word(bytes)).to_f32().into(),
            Dtype::BF16 => |bytes| bf16::from_le_bytes(word(bytes)).to_f32().into(),
            other => {
                return Err(TensorFileError::Dtype {
                    path: path.clone(),
                    name: name.to_owned(),
                    actual: format!("{other:?}"),
                    expected: "F64, F32, F16 or BF16".to_owned(),
                });
            }
        };
        let (from, to) = tensor.data_offsets;
        let bytes = bytes.part(*start + from as u64, to - from);
        let bytes = bytes.map_err(|source| TensorFileError::Read {
            path: path.clone(),
            source,
        })?;
        // There is one value for each element of the shape; the header's check ensures this.
        let values = bytes.chunks_exact(tensor.dtype.bitsize() / 8);
        let values = values.map(|bytes| dtype.round_f64(widen(bytes)));
        collected(parameter, values).map_err(defective)
    }
}

/// The source of a file's bytes.
enum Bytes<'a> {
    File { file: fs::File, len: u64 },
    Memory(&'a [u8]),
}

impl<'a> Bytes<'a> {
    fn open(path: &Path) -> io::Result<Bytes<'a>> {
        // Opening a pipe or reading a device might block forever.
        if !fs::metadata(path)?.is_file() {
            let text = "is no ordinary file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let file = fs::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Bytes::File { file, len })
    }

    fn len(&self) -> u64 {
        match self {
            Bytes::File { len, .. } => *len,
            Bytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads the whole file, if it is no longer than the largest allowed header.
    fn all(&mut self) -> io::Result<Cow<'a, [u8]>> {
        match self.len() {
            len if len > MOST_HEAD => Err(io::ErrorKind::FileTooLarge.into()),
            len => self.part(0, len as usize),
        }
    }

    /// Reads a range of bytes, which must lie inside the file.
    fn part(&mut self, start: u64, len: usize) -> io::Result<Cow<'a, [u8]>> {
        match self {
            Bytes::Memory(bytes) => Ok(Cow::Borrowed(&bytes[start as usize..][..len])),
            Bytes::File { file, .. } => {
                let mut bytes = reserve(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
                bytes.resize(len, 0);
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(&mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

/// Errors of reading a file's header.
enum HeadFlaw {
    Io(io::Error),
    Archive,
    Array,
    Pickle,
    Format(SafeTensorError),
}

impl HeadFlaw {
    /// Recognises a foreign format by the file's first bytes. No safetensors file can begin with these.
    fn of(first: &[u8]) -> HeadFlaw {
        match first {
            [b'P', b'K', 3, 4, ..] => HeadFlaw::Archive,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => HeadFlaw::Array,
            // Pickle protocols 2 to 5 begin with a version.
            [0x80, 2..=5, ..] => HeadFlaw::Pickle,
            _ => HeadFlaw::Format(SafeTensorError::HeaderTooLarge),
        }
    }
}

/// The largest header in bytes that the format allows.
const MOST_HEAD: u64 = 100_000_000;

/// Reads the header: the offset of the data, and the tensors, which must cover all of the data.
fn head(bytes: &mut Bytes<'_>) -> Result<(u64, Metadata), HeadFlaw> {
    let flaw = |flaw| Err(HeadFlaw::Format(flaw));
    const COUNT: u64 = size_of::<u64>() as u64;
    let len = bytes.len();
    if len < COUNT {
        return flaw(SafeTensorError::HeaderTooSmall);
    }
    let count = bytes.part(0, COUNT as usize).map_err(HeadFlaw::Io)?;
    let head_len = u64::from_le_bytes(word(&count));
    if head_len > MOST_HEAD {
        return Err(HeadFlaw::of(&count));
    }
    let start = COUNT + head_len;
    if start > len {
        return flaw(SafeTensorError::InvalidHeaderLength);
    }
    let text = bytes.part(COUNT, head_len as usize).map_err(HeadFlaw::Io)?;
    let head: Metadata = serde_json::from_slice(&text)
        .map_err(|error| HeadFlaw::Format(SafeTensorError::InvalidHeaderDeserialization(error)))?;
    match start.checked_add(head.data_len() as u64) == Some(len) {
        true => Ok((start, head)),
        false => flaw(SafeTensorError::MetadataIncompleteBuffer),
    }
}

/// Copies the bytes of one number.
fn word<const LEN: usize>(bytes: &[u8]) -> [u8; LEN] {
    let mut word = [0; LEN];
    word.copy_from_slice(bytes);
    word
}
