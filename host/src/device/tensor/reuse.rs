//! Tensors whose memory is used again: overwritten, or shared by turns.

use std::fmt;
use std::sync::{Arc, Weak};

use ndarray::{ArrayBase, Data, Dimension};

use super::Tensor;
use crate::device::dtype::{DType, Element, as_bytes, bf16, f16};
use crate::device::storage::Storage;
use crate::device::stream::Stream;
use crate::error::{Error, Result};

impl Tensor {
    /// Elements from byte `offset` of this tensor's memory on, of unspecified content. For intermediate tensors alone: the
    /// host can neither read a part nor write to it.
    pub(crate) fn part(&self, offset: u64, shape: &[usize], dtype: DType) -> Tensor {
        let part = Tensor {
            shape: shape.into(),
            dtype,
            offset: self.offset + offset as usize,
            ..self.clone()
        };
        debug_assert!(offset + part.bytes() <= self.bytes() || part.is_empty());
        part
    }

    /// Something that tells when the last handle to the memory is gone.
    pub(crate) fn watch(&self) -> Watch {
        Watch(Arc::downgrade(&self.storage))
    }

    /// Prepares an existing tensor to be written anew by work on `stream`, which must be the one it was made
    /// on; nobody else may hold it.
    pub(crate) fn rewrite(&mut self, operator: &'static str, stream: &Stream) -> Result<()> {
        if self.stream != *stream {
            return Err(Error::TensorInUse {
                operator,
                argument: "output",
                reason: "belongs to another stream than the plan",
            });
        }
        match Arc::get_mut(&mut self.storage) {
            None => Err(Error::TensorInUse {
                operator,
                argument: "output",
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

    /// Whether the two are handles to the same memory.
    pub(crate) fn shares_memory(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage)
    }
}

/// Tells when the last handle to a tensor's memory is gone, without being one.
#[derive(Clone)]
pub(crate) struct Watch(Weak<Storage>);

impl Watch {
    /// Whether nobody holds the memory any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Whether `tensor` holds the memory.
    pub(crate) fn is_of(&self, tensor: &Tensor) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&tensor.storage))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch(gone: {})", self.is_gone())
    }
}
