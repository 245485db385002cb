//! Overwriting of tensors, and weak handles.

use std::fmt;
use std::sync::{Arc, Weak};

use ndarray::{ArrayBase, Data, Dimension};

use super::arrays::with_rounded;
use super::{Layout, Tensor, must_have_shape};
use crate::device::storage::{HostBuffer, Storage};
use crate::device::stream::Stream;
use crate::dtype::DType;
use crate::error::{At, Error, Result};

impl Tensor {
    /// Makes a weak handle, which does not keep the memory alive.
    pub(crate) fn downgrade(&self) -> WeakTensor {
        WeakTensor {
            layout: self.layout.clone(),
            dtype: self.dtype,
            stream: self.stream.clone(),
            storage: Arc::downgrade(&self.storage),
            is_read_only: self.is_read_only,
        }
    }

    /// Prepares a tensor to be overwritten by work on `stream`, which must be the stream that the tensor was
    /// made on. No other handle may share it.
    pub(crate) fn rewrite(&mut self, at: At, stream: &Stream) -> Result<()> {
        self.must_belong_to(stream, at)?;
        self.overwritable(at).map(drop)
    }

    /// Overwrites all elements in stream order, and returns once the new values have been read.
    pub(crate) fn overwrite<S: Data<Elem = f32>, D: Dimension>(
        &mut self,
        at: At,
        values: &ArrayBase<S, D>,
    ) -> Result<()> {
        must_have_shape(self.shape(), values.shape(), at)?;
        self.must_be_contiguous(at)?;
        let (dtype, start) = (self.dtype, self.start());
        let storage = self.overwritable(at)?;
        with_rounded(values, dtype, |bytes| storage.write(start, bytes))
    }

    /// Takes over a result of the CPU backend: its memory, or a copy of its elements if this tensor's memory
    /// is lent.
    pub(crate) fn assign(&mut self, computed: Tensor) -> Result<()> {
        let start = self.start();
        let (mine, theirs) = (Arc::get_mut(&mut self.storage), &*computed.storage);
        match (mine, theirs) {
            (Some(Storage::Host(mine @ HostBuffer::Lent(_))), Storage::Host(theirs)) => {
                let bytes = theirs.bytes();
                mine.bytes_mut()[start..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            _ => {
                *self = computed;
                Ok(())
            }
        }
    }

    /// Refuses a tensor that belongs to another stream.
    pub(crate) fn must_belong_to(&self, stream: &Stream, at: At) -> Result<()> {
        let lives_there = match (&*self.storage, stream.gpu()) {
            (Storage::Gpu(buffer), Some(stream)) => buffer.home().is(stream),
            _ => true,
        };
        if lives_there && self.stream == *stream {
            return Ok(());
        }
        Err(in_use(at, "belongs to another stream than the plan"))
    }

    /// Returns the memory for overwriting in the order of its home stream, from [`start`](Self::start) on. No
    /// other handle may share it.
    pub(crate) fn overwritable(&mut self, at: At) -> Result<&mut Storage> {
        if self.is_read_only {
            return Err(in_use(
                at,
                "is over memory that its lender forbids to write",
            ));
        }
        let Some(storage) = Arc::get_mut(&mut self.storage) else {
            return Err(in_use(at, "is shared with other tensors"));
        };
        if let Storage::Gpu(buffer) = storage {
            buffer.before_rewrite()?;
        }
        Ok(storage)
    }
}

fn in_use((operator, argument): At, reason: &'static str) -> Error {
    Error::TensorInUse {
        operator,
        argument,
        reason,
    }
}

/// A weak handle to a tensor, which does not keep its memory alive.
pub(crate) struct WeakTensor {
    layout: Layout,
    dtype: DType,
    stream: Stream,
    storage: Weak<Storage>,
    is_read_only: bool,
}

impl WeakTensor {
    /// Returns the tensor, if another handle keeps its memory alive.
    pub(crate) fn upgrade(&self) -> Option<Tensor> {
        Some(Tensor {
            storage: self.storage.upgrade()?,
            layout: self.layout.clone(),
            dtype: self.dtype,
            stream: self.stream.clone(),
            is_read_only: self.is_read_only,
        })
    }
}

impl fmt::Debug for WeakTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakTensor({} {:?})", self.dtype, self.layout.shape())
    }
}
