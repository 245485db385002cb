//! Tensors whose memory is overwritten, and handles that do not keep it.

use std::fmt;
use std::sync::{Arc, Weak};

use ndarray::{ArrayBase, Data, Dimension};

use super::{Tensor, must_have, with_rounded};
use crate::device::storage::Storage;
use crate::device::stream::Stream;
use crate::dtype::DType;
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
        self.must_belong_to(stream, operator, argument)?;
        self.own(operator, argument).map(drop)
    }

    /// Overwrites all elements with other values, in stream order, and returns once these have been read.
    pub(crate) fn overwrite<S: Data<Elem = f32>, D: Dimension>(
        &mut self,
        operator: &'static str,
        argument: &'static str,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        must_have(self.shape(), values.shape(), operator, argument)?;
        let dtype = self.dtype;
        let storage = self.own(operator, argument)?;
        with_rounded(values, dtype, |bytes| storage.write(bytes))
    }

    /// Refuses a tensor of another stream.
    pub(crate) fn must_belong_to(
        &self,
        stream: &Stream,
        operator: &'static str,
        argument: &'static str,
    ) -> Result<()> {
        if self.stream == *stream {
            return Ok(());
        }
        Err(Error::TensorInUse {
            operator,
            argument,
            reason: "belongs to another stream than the plan",
        })
    }

    /// The memory, to be written anew in stream order; nobody else may hold it.
    fn own(&mut self, operator: &'static str, argument: &'static str) -> Result<&mut Storage> {
        let Some(storage) = Arc::get_mut(&mut self.storage) else {
            return Err(Error::TensorInUse {
                operator,
                argument,
                reason: "is shared with other tensors",
            });
        };
        if let Storage::Gpu(buffer) = storage {
            buffer.before_rewrite()?;
        }
        Ok(storage)
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
