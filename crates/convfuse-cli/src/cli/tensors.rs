//! Files of tensors.

mod reader;

use std::io::Write;
use std::path::Path;

use convfuse::{DType, Element, bf16, f16};
use ndarray::ArrayD;
use safetensors::Dtype;
use serde_json::{Map, json};

pub(super) use reader::{Entry, TensorFile, coarser};

use super::failure::Failure;
use super::files::{Target, Whole};

/// The header of a safetensors file with consecutive tensors, each given by name, element type and shape.
fn safetensors_head<'a>(
    tensors: impl IntoIterator<Item = (&'a str, Dtype, &'a [usize])>,
) -> Vec<u8> {
    let mut head = Map::new();
    let mut start = 0;
    for (name, dtype, shape) in tensors {
        let end = start + shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
        head.insert(name.to_owned(), entry);
        start = end;
    }
    let mut text = serde_json::Value::Object(head).to_string();
    // The data is aligned to eight bytes.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.into_bytes());
    bytes
}

/// The header of a file in NumPy's format.
fn numpy_head(dtype: Dtype, shape: &[usize]) -> Vec<u8> {
    let descr = match dtype {
        Dtype::F16 => "<f2",
        _ => "<f4",
    };
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let extents = extents.trim_end();
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    // The data is aligned to 64 bytes and follows a line break.
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    // Tensors have low ranks, so the header's length fits in 16 bits.
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.into_bytes());
    bytes
}

/// Writes tensors to a safetensors file.
pub(super) fn save_all<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a ArrayD<f32>)>,
) -> Result<(), Failure> {
    let tensors: Vec<_> = tensors.into_iter().collect();
    let mut file = Target::new("--save", path)?.create()?;
    let head = tensors.iter();
    let head = safetensors_head(head.map(|(name, values)| (*name, Dtype::F32, values.shape())));
    let mut write = |bytes: &[u8]| file.write_all(bytes);
    let written = write(&head).and_then(|()| {
        let mut values = tensors.iter().flat_map(|(_, values)| values.iter());
        values.try_for_each(|value| write(&value.to_le_bytes()))
    });
    written.map_err(|error| file.failed(error))?;
    file.finish()
}

/// A file format for a single tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Safetensors,
    Numpy,
}

impl Format {
    /// The format of a file name; safetensors for standard output.
    pub(super) fn of(path: &Path, target: &Target) -> Result<Format, Failure> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("npy") => Ok(Format::Numpy),
            Some("safetensors") => Ok(Format::Safetensors),
            _ if matches!(target, Target::Stdout | Target::Direct(_)) => Ok(Format::Safetensors),
            _ => Err(Failure::from("must end with .safetensors or .npy").of(path.display())),
        }
    }
}

/// A file with one tensor that is written in parts.
pub(super) struct TensorWriter {
    file: Whole,
    dtype: Dtype,
}

impl TensorWriter {
    /// Begins a file of this element type. NumPy has no bf16, so `.npy` stores f32 instead.
    pub(super) fn new(
        target: &Target,
        format: Format,
        dtype: DType,
        shape: &[usize],
    ) -> Result<TensorWriter, Failure> {
        let dtype = match (dtype, format) {
            (DType::F16, _) => Dtype::F16,
            (DType::BF16, Format::Safetensors) => Dtype::BF16,
            _ => Dtype::F32,
        };
        let mut file = target.create()?;
        let head = match format {
            Format::Safetensors => safetensors_head([("output", dtype, shape)]),
            Format::Numpy => numpy_head(dtype, shape),
        };
        let written = file.write_all(&head);
        written.map_err(|error| file.failed(error))?;
        Ok(TensorWriter { file, dtype })
    }

    /// Appends elements.
    pub(super) fn write(&mut self, values: &ArrayD<f32>) -> Result<(), Failure> {
        let (file, dtype) = (&mut self.file, self.dtype);
        let mut values = values.iter();
        let written = values.try_for_each(|&value| match dtype {
            Dtype::F16 => file.write_all(&f16::from_f32(value).to_le_bytes()),
            Dtype::BF16 => file.write_all(&<bf16 as Element>::from_f32(value).to_le_bytes()),
            _ => file.write_all(&value.to_le_bytes()),
        });
        written.map_err(|error| self.file.failed(error))
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        self.file.finish()
    }
}
