//! Tensors over other libraries' memory, and raw addresses of tensors.

use super::{Layout, Tensor, must_have_shape};
use crate::device::gpu::GpuBuffer;
use crate::device::kind::Kind;
use crate::device::raw::{Owner, RawPointer};
use crate::device::storage::{HostBuffer, Storage};
use crate::device::stream::Stream;
use crate::dtype::DType;
use crate::error::{Error, Result};

const OPERATOR: &str = "from_raw_parts";

impl Tensor {
    /// Makes a tensor over memory that another library allocated. Nothing is copied. `pointer` is the address
    /// of the element with all indices 0; `strides` are in elements (`None`: dense and row-major).
    ///
    /// The memory is used in the order of `stream`, which may be the other library's stream, or one that
    /// waits for it. `owner` is dropped once no tensor uses the memory, and `stream` waits for all uses by
    /// other streams of this library. Queued work may still use the memory at that time.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if there is not one stride per axis; [`Error::OutOfMemory`] for more bytes
    /// than an address space has; [`Error::NullPointer`] for a null pointer to elements;
    /// [`Error::Misaligned`] for an address that is not aligned for the element type; [`Error::Unsupported`]
    /// in the emulator, whose kernels access only its own memory.
    ///
    /// # Safety
    /// All elements lie in memory of the stream's device: on a GPU in its primary context; on the CPU device
    /// in this process, initialised. Gaps between elements belong to the same allocation. The memory stays
    /// valid until `owner` is dropped, and until the work that `stream` has by then is complete. Until then
    /// all writes are in the order of `stream`, and after reads by other streams of this library (by
    /// [`on`](Self::on)). If the memory is the output of a plan, only the plan uses it during a run.
    ///
    /// # Examples
    /// A batch of two channels-last images in the program's own memory. On a GPU, use the stream of the
    /// library that allocated the memory, by [`Stream::from_raw`].
    /// ```
    /// use std::sync::Arc;
    ///
    /// use convfuse::{DType, Device, Tensor};
    ///
    /// let stream = Device::cpu().stream()?;
    /// let images = Arc::new(vec![0.5f32; 2 * 8 * 8 * 3]);
    /// let pointer = images.as_ptr().cast_mut().cast();
    /// let owner = Box::new(Arc::clone(&images));
    /// let (shape, strides) = ([2, 3, 8, 8], [8 * 8 * 3, 1, 8 * 3, 3]);
    /// // SAFETY: all elements lie in the vector, which the owner keeps, and nobody writes to it.
    /// let x = unsafe {
    ///     Tensor::from_raw_parts(&stream, pointer, &shape, Some(&strides), DType::F32, owner)?
    /// };
    /// assert!(!x.is_contiguous());
    /// drop(x);
    /// assert_eq!(Arc::strong_count(&images), 1);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub unsafe fn from_raw_parts(
        stream: &Stream,
        pointer: RawPointer,
        shape: &[usize],
        strides: Option<&[isize]>,
        dtype: DType,
        owner: Owner,
    ) -> Result<Tensor> {
        let dense = Layout::contiguous(shape).strides();
        let strides = strides.unwrap_or(&dense);
        must_have_shape(&[shape.len()], &[strides.len()], (OPERATOR, "strides"))?;
        let too_large = || stream.device().too_large();
        let (layout, before, places) = Layout::strided(shape, strides).ok_or_else(too_large)?;
        stream.device().bytes_of(shape, dtype)?;
        stream.device().bytes_of(&[places], dtype)?;
        if places != 0 && pointer.is_null() {
            return Err(Error::NullPointer { operator: OPERATOR });
        }
        let size = dtype.size();
        if places != 0 && !pointer.addr().is_multiple_of(size) {
            return Err(Error::Misaligned {
                operator: OPERATOR,
                address: pointer.addr(),
                alignment: size,
            });
        }
        let (start, bytes) = (pointer.wrapping_byte_sub(before * size), places * size);
        let storage = match (stream.device().kind(), stream.gpu()) {
            (Kind::Gpu(_), Some(home)) => {
                let start = start.expose_provenance() as u64;
                // SAFETY: the caller's promise; `layout` spans `bytes` bytes from `start` on.
                Storage::Gpu(unsafe { GpuBuffer::lent(home, start, bytes, owner) })
            }
            (Kind::Cpu(_), _) => {
                // SAFETY: as above; the address was checked to be aligned.
                Storage::Host(unsafe { HostBuffer::lent(start, bytes, owner) })
            }
            _ => return Err(stream.device().without("kernels over memory of others")),
        };
        Ok(Tensor {
            layout,
            ..Tensor::with(stream, &[0], dtype, storage)
        })
    }

    /// Returns the address of the element with all indices 0, on a GPU and on the CPU device; null if there
    /// are no elements. It is valid while a tensor over the memory lives, for work in the order of the
    /// tensor's [`stream`](Self::stream), or after it. For work on the stream that made the tensor, the
    /// tensor may be dropped once the work is queued. For work on other streams (of [`on`](Self::on)) it may
    /// be dropped once the work is complete. The elements must not be written.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in the emulator; errors of ordering the tensor's stream after the tensor's
    /// write.
    pub fn as_raw(&self) -> Result<RawPointer> {
        if self.is_empty() {
            return Ok(std::ptr::null_mut());
        }
        match &*self.storage {
            Storage::Host(host) => {
                let offset = self.layout.offset() * self.dtype.size();
                Ok(host.bytes().as_ptr().wrapping_add(offset).cast_mut().cast())
            }
            Storage::Gpu(_) => {
                let reading = self.read_on(("as_raw", "the tensor"), &self.stream)?;
                Ok(reading.pointer::<u8>().cast_mut().cast())
            }
            Storage::Emulated(_) => Err(self.device().without("addresses for others")),
        }
    }
}
