//! Files of tensors, read a part at a time: safetensors and NumPy's `.npy`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use convfuse::{Element, bf16, f16};
use serde::Deserialize;

use crate::cli::failure::Failure;
use crate::cli::files;

/// What elements of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Kind {
    F64,
    F32,
    F16,
    Bf16,
}

impl Kind {
    pub(in crate::cli) const fn size(self) -> usize {
        match self {
            Kind::F64 => 8,
            Kind::F32 => 4,
            Kind::F16 | Kind::Bf16 => 2,
        }
    }

    /// The name in a safetensors file.
    pub(in crate::cli) const fn name(self) -> &'static str {
        match self {
            Kind::F64 => "F64",
            Kind::F32 => "F32",
            Kind::F16 => "F16",
            Kind::Bf16 => "BF16",
        }
    }

    fn of_name(name: &str) -> Option<Kind> {
        let all = [Kind::F64, Kind::F32, Kind::F16, Kind::Bf16];
        all.into_iter().find(|kind| kind.name() == name)
    }

    fn value(self, bytes: &[u8]) -> f64 {
        let two = || [bytes[0], bytes[1]];
        match self {
            Kind::F64 => f64::from_le_bytes(bytes.try_into().unwrap_or_default()),
            Kind::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap_or_default())),
            Kind::F16 => f64::from(f16::from_le_bytes(two()).to_f32()),
            Kind::Bf16 => f64::from(Element::to_f32(bf16::from_le_bytes(two()))),
        }
    }
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Entry {
    /// Its name; that of an array without one is empty.
    pub(in crate::cli) name: String,
    pub(in crate::cli) shape: Vec<usize>,
    pub(in crate::cli) kind: Kind,
    start: u64,
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
}

/// How the first bytes of a file in NumPy's format are.
const NUMPY: &[u8; 6] = b"\x93NUMPY";

/// The most bytes that the head of a file may have.
const MOST_HEAD: u64 = 100 << 20;

impl TensorFile {
    /// Opens a file, whose head is checked as a whole.
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
        })
    }

    /// Some elements of a tensor, in row-major order.
    pub(in crate::cli) fn read(
        &mut self,
        entry: usize,
        elements: Range<usize>,
    ) -> Result<Vec<f64>, Failure> {
        let Entry { kind, start, .. } = self.entries[entry];
        let size = kind.size();
        let mut bytes = vec![0; elements.len() * size];
        let at = SeekFrom::Start(start + (elements.start * size) as u64);
        let read = self.file.seek(at);
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|error| Failure::of_file(&self.path, &error))?;
        let values = bytes.chunks_exact(size);
        Ok(values.map(|bytes| kind.value(bytes)).collect())
    }
}

/// Bytes of a tensor, if they can be counted.
fn bytes_of(shape: &[usize], size: usize) -> Option<u64> {
    // An array has no extents beyond any product of theirs even where one of them is 0.
    let product = |total: usize, &extent: &usize| total.checked_mul(extent.max(1));
    let bytes = shape.iter().try_fold(size, product)?;
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

#[derive(Deserialize)]
struct Described {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

fn safetensors(file: &mut File, head_len: u64, len: u64) -> Result<Vec<Entry>, String> {
    let text = head(file, head_len, len - 8)?;
    let all: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let all = all.into_iter().filter(|(name, _)| name != "__metadata__");
    let mut entries = Vec::new();
    for (name, described) in all {
        let wrong = |what: &str| format!("{name} {what}");
        let described: Described =
            serde_json::from_value(described).map_err(|error| wrong(&error.to_string()))?;
        let kind = Kind::of_name(&described.dtype).ok_or_else(|| {
            wrong(&format!(
                "holds {}, must be F64, F32, F16 or BF16",
                described.dtype
            ))
        })?;
        let [start, end] = described.data_offsets;
        let bytes = bytes_of(&described.shape, kind.size());
        if bytes.is_none() || end.checked_sub(start) != bytes {
            return Err(wrong("has other bytes than its shape"));
        }
        entries.push(Entry {
            name,
            shape: described.shape,
            kind,
            start: start.saturating_add(8 + head_len),
        });
    }
    entries.sort_by_key(|entry| (entry.start, entry.elements()));
    let mut at = 8 + head_len;
    for entry in &entries {
        if entry.start != at {
            return Err(format!("{} does not lie behind the one before", entry.name));
        }
        at += bytes_of(&entry.shape, entry.kind.size()).unwrap_or(0);
    }
    match at == len {
        true => Ok(entries),
        false => Err(format!("has {len} bytes, must have {at}")),
    }
}

/// What stands behind each of these keys in a dictionary of Python that has them all, once, and no others.
fn dictionary<'a, const COUNT: usize>(
    text: &'a str,
    keys: [&str; COUNT],
) -> Result<[&'a str; COUNT], String> {
    const NONE: &str = "its head is no dictionary";
    let inner = text.trim().strip_prefix('{');
    let inner = inner.and_then(|text| text.strip_suffix('}'));
    let mut left = inner.ok_or(NONE)?.trim();
    let mut values = [None; COUNT];
    while !left.is_empty() {
        let quote = if left.starts_with('"') { '"' } else { '\'' };
        let key = left
            .strip_prefix(quote)
            .and_then(|text| text.split_once(quote));
        let (key, rest) = key.ok_or(NONE)?;
        let rest = rest
            .trim_start()
            .strip_prefix(':')
            .ok_or(NONE)?
            .trim_start();
        // A comma ends the value, but not one in a tuple, or in a list, which is refused whatever it has.
        let end = match rest.chars().next() {
            Some('(') => rest.find(')').ok_or(NONE)? + 1,
            Some('[') => rest.rfind(']').ok_or(NONE)? + 1,
            _ => rest.find(',').unwrap_or(rest.len()),
        };
        let (value, rest) = rest.split_at(end);
        let index = keys.iter().position(|known| *known == key);
        let place = index.map(|index| &mut values[index]);
        match place.ok_or_else(|| format!("its head has {key}, which no .npy file has"))? {
            Some(_) => return Err(format!("its head has {key} twice")),
            place => *place = Some(value.trim_end()),
        }
        left = rest.trim_start();
        if !left.is_empty() {
            left = left.strip_prefix(',').ok_or(NONE)?.trim_start();
        }
    }
    for (value, key) in values.iter().zip(keys) {
        value.ok_or_else(|| format!("its head has no {key}"))?;
    }
    Ok(values.map(Option::unwrap_or_default))
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
    let [descr, fortran_order, shape] = dictionary(&text, ["descr", "fortran_order", "shape"])?;
    let kind = match descr.trim_matches(['\'', '"']) {
        "<f8" => Kind::F64,
        "<f4" => Kind::F32,
        "<f2" => Kind::F16,
        _ => return Err("its elements must be <f8, <f4 or <f2".to_owned()),
    };
    if fortran_order != "False" {
        return Err("its elements are in Fortran's order, must be in C's".to_owned());
    }
    let shape = shape.strip_prefix('(');
    let shape = shape.and_then(|shape| shape.strip_suffix(')'));
    let extents = shape
        .ok_or("its shape is no tuple")?
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty());
    let shape: Option<Vec<usize>> = extents.map(|extent| extent.parse().ok()).collect();
    let shape = shape.ok_or("its shape has other things than numbers")?;
    let start = before + head_len;
    let end = bytes_of(&shape, kind.size()).and_then(|bytes| bytes.checked_add(start));
    if end != Some(len) {
        return Err(format!(
            "has {len} bytes, which are not those of shape {shape:?}"
        ));
    }
    Ok(vec![Entry {
        name: String::new(),
        shape,
        kind,
        start,
    }])
}
