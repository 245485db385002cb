//! Files of tensors.

use std::io::Write;
use std::path::Path;

use ndarray::ArrayD;
use serde_json::{Map, json};

use super::failure::Failure;
use super::files::Target;

/// The head of a safetensors file with these tensors, each by name, element type and shape, one behind the other.
///
/// # Errors
/// Tensors of more bytes than can be counted.
pub(super) fn safetensors_head<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a str, usize, &'a [usize])>,
) -> Vec<u8> {
    let mut head = Map::new();
    let mut start = 0;
    for (name, dtype, size, shape) in tensors {
        let end = start + shape.iter().product::<usize>() * size;
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
        head.insert(name.to_owned(), entry);
        start = end;
    }
    let mut text = serde_json::Value::Object(head).to_string();
    // Data begins at a multiple of eight bytes.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
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
    let head = safetensors_head(head.map(|(name, values)| (*name, "F32", 4, values.shape())));
    let mut write = |bytes: &[u8]| file.write_all(bytes);
    let written = write(&head).and_then(|()| {
        let mut values = tensors.iter().flat_map(|(_, values)| values.iter());
        values.try_for_each(|value| write(&value.to_le_bytes()))
    });
    written.map_err(|error| file.failed(error))?;
    file.finish()
}
