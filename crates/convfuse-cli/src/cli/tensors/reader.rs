//! Files of tensors, read in parts: safetensors and NumPy's `.npy`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use convfuse::{Element, bf16, f16, lab};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::Deserialize;

use crate::cli::failure::Failure;
use crate::cli::files;

/// The supported element types, from the finest to the coarsest.
const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

/// Returns the coarser of two element types.
pub(in crate::cli) fn coarser(one: Dtype, other: Dtype) -> Dtype {
    let coarser = TYPES
        .into_iter()
        .rfind(|dtype| [one, other].contains(dtype));
    coarser.unwrap_or(one)
}

/// Parses NumPy's element type. Returns whether it is big-endian, too.
fn of_numpy(descr: &str) -> Result<(Dtype, bool), String> {
    let refused = || Err(format!("its elements are {descr}, must be f8, f4 or f2"));
    let (is_big, dtype) = match descr.split_at_checked(1) {
        Some(("<", dtype)) => (false, dtype),
        Some((">", dtype)) => (true, dtype),
        _ => return refused(),
    };
    match dtype {
        "f8" => Ok((Dtype::F64, is_big)),
        "f4" => Ok((Dtype::F32, is_big)),
        "f2" => Ok((Dtype::F16, is_big)),
        _ => refused(),
    }
}

/// Decodes an element of one of the [`TYPES`].
fn value(dtype: Dtype, bytes: &[u8]) -> f64 {
    let two = || [bytes[0], bytes[1]];
    match dtype {
        Dtype::F64 => f64::from_le_bytes(bytes.try_into().unwrap_or_default()),
        Dtype::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap_or_default())),
        Dtype::F16 => f64::from(f16::from_le_bytes(two()).to_f32()),
        _ => f64::from(Element::to_f32(bf16::from_le_bytes(two()))),
    }
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Entry {
    /// The tensor's name; empty for an array without a name.
    pub(in crate::cli) name: String,
    pub(in crate::cli) shape: Vec<usize>,
    pub(in crate::cli) dtype: Dtype,
    start: u64,
    /// Whether elements are big-endian.
    is_big_endian: bool,
    /// Whether the first axis is the innermost one.
    is_fortran: bool,
}

impl Entry {
    pub(in crate::cli) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// An open file of tensors.
pub(in crate::cli) struct TensorFile {
    path: PathBuf,
    file: File,
    pub(in crate::cli) entries: Vec<Entry>,
    /// The index and all bytes of the Fortran-order tensor that was read last.
    whole: Option<(usize, Vec<u8>)>,
}

/// The first bytes of a file in NumPy's format.
const NUMPY: &[u8; 6] = b"\x93NUMPY";

/// The first bytes of a zip archive, such as NumPy's `.npz`.
const ZIP: &[u8; 4] = b"PK\x03\x04";

/// The size limit of a file's header in bytes.
const MOST_HEAD: u64 = 100 << 20;

impl TensorFile {
    /// Opens a file and checks its whole header.
    pub(in crate::cli) fn open(path: &Path) -> Result<TensorFile, Failure> {
        let mut file = files::open(path)?;
        let failed = |error: std::io::Error| Failure::of_file(path, &error);
        let len = file.metadata().map_err(failed)?.len();
        let mut first = [0; 8];
        let is_long = len >= 8;
        if is_long {
            file.read_exact(&mut first).map_err(failed)?;
        }
        let entries = match () {
            () if !is_long => Err("has fewer than 8 bytes".to_owned()),
            () if first.starts_with(ZIP) => Err(
                "is an archive, as .npz is; save one of its arrays by numpy.save, or all by safetensors.numpy.save_file"
                    .to_owned(),
            ),
            () if first.starts_with(NUMPY) => numpy(&mut file, [first[6], first[7]], len),
            () => safetensors(&mut file, u64::from_le_bytes(first), len),
        };
        let refused = |flaw: String| {
            let text = "is no whole safetensors or .npy file";
            Failure::Refused(format!("{}: {text}: {flaw}", path.display()))
        };
        Ok(TensorFile {
            path: path.to_owned(),
            file,
            entries: entries.map_err(refused)?,
            whole: None,
        })
    }

    /// Reads a range of a tensor's elements in row-major order.
    pub(in crate::cli) fn read(
        &mut self,
        entry: usize,
        elements: Range<usize>,
    ) -> Result<Vec<f64>, Failure> {
        let (number, entry) = (entry, &self.entries[entry]);
        let (size, is_big_endian) = (entry.dtype.bitsize() / 8, entry.is_big_endian);
        let mut part = |elements: Range<usize>| {
            lab::must_have_memory(elements.len().saturating_mul(size))?;
            let mut bytes = vec![0; elements.len() * size];
            let at = SeekFrom::Start(entry.start + (elements.start * size) as u64);
            let read = self.file.seek(at);
            let read = read.and_then(|_| self.file.read_exact(&mut bytes));
            read.map_err(|error| Failure::of_file(&self.path, &error))?;
            if is_big_endian {
                bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
            }
            Ok::<Vec<u8>, Failure>(bytes)
        };
        let element = |bytes: &[u8]| value(entry.dtype, bytes);
        if !entry.is_fortran {
            return Ok(part(elements)?.chunks_exact(size).map(element).collect());
        }
        // Adjacent elements in row-major order are far apart in the file.
        let whole = match self.whole.take() {
            Some((known, whole)) if known == number => whole,
            _ => part(0..entry.elements())?,
        };
        let places = elements.map(|index| fortran(&entry.shape, index) * size);
        let values = places.map(|at| element(&whole[at..at + size])).collect();
        self.whole = Some((number, whole));
        Ok(values)
    }
}

/// Returns the Fortran-order position of a row-major index.
fn fortran(shape: &[usize], mut index: usize) -> usize {
    let mut stride: usize = shape.iter().product();
    let mut place = 0;
    for &extent in shape.iter().rev() {
        stride /= extent;
        place += index % extent * stride;
        index /= extent;
    }
    place
}

/// Bytes of a tensor; `None` if they overflow.
fn bytes_of(shape: &[usize], dtype: Dtype) -> Option<u64> {
    // The product of the other extents must not overflow even if one extent is 0.
    let product = |total: usize, &extent: &usize| total.checked_mul(extent.max(1));
    let bytes = shape.iter().try_fold(dtype.bitsize() / 8, product)?;
    isize::try_from(bytes).ok()?;
    Some(if shape.contains(&0) { 0 } else { bytes as u64 })
}

fn head(file: &mut File, head_len: u64, left: u64) -> Result<String, String> {
    if head_len > left.min(MOST_HEAD) {
        return Err(format!("its head would have {head_len} bytes"));
    }
    let mut text = String::new();
    let read = file.by_ref().take(head_len).read_to_string(&mut text);
    read.map_err(|error| error.to_string()).map(|_| text)
}

fn safetensors(file: &mut File, head_len: u64, len: u64) -> Result<Vec<Entry>, String> {
    let text = head(file, head_len, len - 8)?;
    // Fails unless the tensors are contiguous and their sizes match their shapes.
    let metadata: Metadata = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let data = 8 + head_len;
    if metadata.data_len() as u64 != len - data {
        let (found, wanted) = (len - data, metadata.data_len());
        return Err(format!("has {found} bytes of data, must have {wanted}"));
    }
    let entry = |name: String| {
        let info = metadata.info(&name).ok_or("a name without a tensor")?;
        let dtype = info.dtype;
        if !TYPES.contains(&dtype) {
            return Err(format!(
                "{name} holds {dtype}, must be F64, F32, F16 or BF16"
            ));
        }
        bytes_of(&info.shape, dtype)
            .ok_or_else(|| format!("{name} has a shape that no array has"))?;
        Ok(Entry {
            shape: info.shape.clone(),
            dtype,
            start: data + info.data_offsets.0 as u64,
            name,
            is_big_endian: false,
            is_fortran: false,
        })
    };
    metadata.offset_keys().into_iter().map(entry).collect()
}

/// The header of a file in NumPy's format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NumpyHead {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl NumpyHead {
    /// Parses a dictionary in Python's notation. It differs from JSON in quotes, tuples, booleans and
    /// trailing commas.
    fn of_text(text: &str) -> Result<NumpyHead, String> {
        if text.contains('[') {
            let text = "has a list in its head: elements must be f8, f4 or f2, the shape a tuple";
            return Err(text.to_owned());
        }
        let mut json = text.replace('\'', "\"").replace('(', "[").replace(')', "]");
        json.retain(|c| !c.is_whitespace());
        for (python, other) in [
            ("False", "false"),
            ("True", "true"),
            (",}", "}"),
            (",]", "]"),
        ] {
            json = json.replace(python, other);
        }
        let head = serde_json::from_str(&json);
        head.map_err(|error| format!("its head is no dictionary of an array: {error}"))
    }
}

fn numpy(file: &mut File, version: [u8; 2], len: u64) -> Result<Vec<Entry>, String> {
    let mut size = [0; 4];
    let count = match version {
        [1, 0] => 2,
        [2 | 3, 0] => 4,
        [major, minor] => return Err(format!("is of version {major}.{minor}, must be 1.0 to 3.0")),
    };
    let read = file.read_exact(&mut size[..count]);
    read.map_err(|error| error.to_string())?;
    let (head_len, before) = (u64::from(u32::from_le_bytes(size)), 8 + count as u64);
    let text = head(file, head_len, len.saturating_sub(before))?;
    let NumpyHead {
        descr,
        fortran_order,
        shape,
    } = NumpyHead::of_text(&text)?;
    let (dtype, is_big_endian) = of_numpy(&descr)?;
    let start = before + head_len;
    let end = bytes_of(&shape, dtype).and_then(|bytes| bytes.checked_add(start));
    if end != Some(len) {
        return Err(format!(
            "has {len} bytes, which are not those of shape {shape:?}"
        ));
    }
    Ok(vec![Entry {
        name: String::new(),
        shape,
        dtype,
        start,
        is_big_endian,
        is_fortran: fortran_order,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_in_fortran_order_are_found() {
        let places: Vec<usize> = (0..24).map(|index| fortran(&[2, 3, 4], index)).collect();
        let array = ndarray::Array3::from_shape_fn((2, 3, 4), |(i, j, k)| i + 2 * j + 6 * k);
        assert!(array.iter().eq(&places));
    }
}
