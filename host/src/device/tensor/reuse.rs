//! Tensors whose memory is overwritten, and handles that do not keep it.

use std::fmt;
use std::sync::{Arc, Weak};

use ndarray::{ArrayBase, Data, Dimension};

use super::Tensor;
use crate::device::storage::Storage;
use crate::device::stream::Stream;
use crate::dtype::{DType, Element, as_bytes, bf16, f16};
use crate::error::{Error, Result};

impl Tensor {
    /// A handle that does not keep the memory.
    pub(crate) fn downgrade(&self) -> WeakTensor {
        WeakTensor {
            shape: self.shape.clone(),
            dtype: self.dtype,
            stream: self.stream.clone(),
            storage: Arc::downgrade(&self.storage),
        }
    }

    /// Prepares an existing tensor to be written anew by work on `stream`, which must be the one it was made
    /// on; nobody else may hold it.
    pub(crate) fn rewrite(
        &mut self,
        operator: &'static str,
        argument: &'static str,
        stream: &Stream,
    ) -> Result<()> {
        if self.stream != *stream {
            return Err(Error::TensorInUse {
                operator,
                argument,
                reason: "belongs to another stream than the plan",
            });
        }
        match Arc::get_mut(&mut self.storage) {
            None => Err(Error::TensorInUse {
                operator,
                argument,
                reason: "is shared with other tensors",
            }),
            Some(Storage::Gpu(buffer)) => Ok(buffer.before_rewrite()?),
            Some(Storage::Host(_) | Storage::Emulated(_)) => Ok(()),
        }
    }

    /// Overwrites all elements with other values, in stream order, and returns once these have been read.
    pub(crate) fn overwrite<S: Data<Elem = f32>, D: Dimension>(
        &mut self,
        operator: &'static str,
        argument: &'static str,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        if values.shape() != self.shape() {
            return Err(Error::ShapeMismatch {
                operator,
                argument,
                actual: values.shape().to_vec(),
                expected: self.shape().to_vec(),
            });
        }
        match self.dtype {
            DType::F32 => self.overwrite_bytes(operator, argument, values),
            DType::F16 => {
                let values = values.map(|&value| f16::from_f32(value));
                self.overwrite_bytes(operator, argument, &values)
            }
            DType::BF16 => {
                let values = values.map(|&value| bf16::from_f32(value));
                self.overwrite_bytes(operator, argument, &values)
            }
        }
    }

    fn overwrite_bytes<T: Element, S: Data<Elem = T>, D: Dimension>(
        &mut self,
        operator: &'static str,
        argument: &'static str,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        let values = values.as_standard_layout();
        let bytes = as_bytes(
            values
                .as_slice()
                .expect("the standard layout is contiguous"),
        );
        match Arc::get_mut(&mut self.storage) {
            None => {
                return Err(Error::TensorInUse {
                    operator,
                    argument,
                    reason: "is shared with other tensors",
                });
            }
            Some(Storage::Gpu(buffer)) => {
                buffer.before_rewrite()?;
                buffer.write(bytes)?;
            }
            Some(Storage::Emulated(buffer)) => buffer.write(bytes)?,
            Some(Storage::Host(host)) => host.bytes_mut().copy_from_slice(bytes),
        }
        Ok(())
    }
}

/// A handle to a tensor that does not keep its memory.
pub(crate) struct WeakTensor {
    shape: Box<[usize]>,
    dtype: DType,
    stream: Stream,
    storage: Weak<Storage>,
}

impl WeakTensor {
    /// The tensor, while another handle keeps its memory.
    pub(crate) fn upgrade(&self) -> Option<Tensor> {
        Some(Tensor {
            storage: self.storage.upgrade()?,
            shape: self.shape.clone(),
            dtype: self.dtype,
            stream: self.stream.clone(),
        })
    }
}

impl fmt::Debug for WeakTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakTensor({} {:?})", self.dtype, self.shape)
    }
}
