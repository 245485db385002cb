//! The tensors of a safetensors file, which are taken by name until none remains.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::Path;

use ndarray::{ArrayD, IxDyn};
use safetensors::tensor::{Dtype, SafeTensors};

use super::flaw::GoldenFlaw;

/// An element type of golden files.
pub(super) trait Element: Sized {
    const DTYPE: Dtype;
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! element {
    ($type:ty, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn read(bytes: &[u8]) -> Vec<Self> {
                let (words, _) = bytes.as_chunks();
                let words = words.iter();
                words.map(|&word| Self::from_le_bytes(word)).collect()
            }
        }
    };
}

element!(f32, F32);
element!(f64, F64);
element!(i64, I64);

struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) struct Tensors {
    left: BTreeMap<String, Tensor>,
    metadata: HashMap<String, String>,
}

impl Tensors {
    pub(super) fn read(path: &Path) -> Result<Self, GoldenFlaw> {
        let read = || match fs::metadata(path)?.is_file() {
            true => fs::read(path),
            // Reading a pipe or a device might never end.
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "is no ordinary file",
            )),
        };
        let bytes = read().map_err(GoldenFlaw::Read)?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(GoldenFlaw::Format)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(GoldenFlaw::Format)?;
        let owned = tensors.iter().map(|(name, view)| {
            let tensor = Tensor {
                dtype: view.dtype(),
                shape: view.shape().to_vec(),
                bytes: view.data().to_vec(),
            };
            (name.to_owned(), tensor)
        });
        Ok(Self {
            left: owned.collect(),
            metadata: header.metadata().clone().unwrap_or_default(),
        })
    }

    /// The metadata text under `key`.
    pub(super) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// The shape of a tensor that is not taken yet.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.left.get(name).map(|tensor| &tensor.shape[..])
    }

    /// Takes tensor `name`, which must have element type `T` and exactly `shape`.
    pub(super) fn take<T: Element>(
        &mut self,
        name: &str,
        shape: &[usize],
    ) -> Result<ArrayD<T>, GoldenFlaw> {
        let name = name.to_owned();
        let Some(tensor) = self.left.remove(&name) else {
            return Err(GoldenFlaw::Missing { name });
        };
        if tensor.dtype != T::DTYPE {
            return Err(GoldenFlaw::Dtype {
                name,
                actual: tensor.dtype,
                expected: T::DTYPE,
            });
        }
        if tensor.shape != shape {
            return Err(GoldenFlaw::Shape {
                name,
                actual: tensor.shape,
                expected: shape.to_vec(),
            });
        }
        // safetensors checks the length against the shape, but allows any extents next to an extent of 0.
        let values = ArrayD::from_shape_vec(IxDyn(shape), T::read(&tensor.bytes));
        values.map_err(|_| GoldenFlaw::TooLarge {
            shape: shape.to_vec(),
        })
    }

    /// Refuses tensors that were not taken.
    pub(super) fn finish(&self) -> Result<(), GoldenFlaw> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(GoldenFlaw::Unexpected { name: name.clone() }),
        }
    }
}
