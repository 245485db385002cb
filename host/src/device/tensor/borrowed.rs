//! Tensors over memory of others, and addresses of ours.

use super::{Layout, Tensor};
use crate::device::gpu::GpuBuffer;
use crate::device::kind::Kind;
use crate::device::raw::{Owner, RawPointer};
use crate::device::storage::{HostBuffer, Storage};
use crate::device::stream::Stream;
use crate::dtype::DType;
use crate::error::{Error, Result};

const OPERATOR: &str = "from_raw_parts";

impl Tensor {
    /// A tensor over memory that somebody else allocated: nothing is copied. `pointer` is the address of the
    /// element with all indices 0, `strides` lead from one index to the next, in elements (`None`: dense and
    /// row-major).
    ///
    /// The memory is used in the order of `stream`, whether the stream is the other library's or one that was
    /// made to wait for it. `owner` is dropped once no tensor is over the memory and `stream` was told to
    /// wait for what other streams of this library do with it; work that is queued by then may still use the
    /// memory.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if there is not one stride per axis; [`Error::OutOfMemory`] for more than an
    /// address space has; [`Error::NullPointer`] for elements at no address; [`Error::Misaligned`] for an
    /// address that is none of such an element; [`Error::Unsupported`] in the emulator, whose kernels see
    /// nothing but its own memory.
    ///
    /// # Safety
    /// All elements lie in memory of the stream's device: on a GPU in its primary context, on the CPU device
    /// in this process, initialised; the gaps between them, too, are such memory of the same allocation. It
    /// stays until `owner` is dropped, and then until the work is done that was given to `stream`. Nobody
    /// writes to it meanwhile but in the order of `stream`, and after other streams that this library was
    /// told to read it on (by [`on`](Self::on)) have done so; where it is the output of a plan, nobody else
    /// uses it while the plan does.
    ///
    /// # Examples
    /// A batch of two channels-last images in memory of the program's own. On a GPU it is the same, with the
    /// stream of the library that allocated the memory by [`Stream::from_raw`].
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
        if strides.len() != shape.len() {
            return Err(Error::ShapeMismatch {
                operator: OPERATOR,
                argument: "strides",
                actual: vec![strides.len()],
                expected: vec![shape.len()],
            });
        }
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
                // SAFETY: as above; the address was found to be aligned.
                Storage::Host(unsafe { HostBuffer::lent(start, bytes, owner) })
            }
            _ => {
                return Err(Error::Unsupported {
                    device: stream.device().to_string(),
                    what: "kernels over memory of others",
                });
            }
        };
        Ok(Tensor {
            layout,
            ..Tensor::with(stream, &[0], dtype, storage)
        })
    }

    /// The address of the element with all indices 0, on a GPU and on the CPU device; null where there are no
    /// elements. Valid as long as a tensor over the memory is, for work in the order of the tensor's
    /// [`stream`](Self::stream), or after it. Such a tensor may be dropped when work is queued that reads the
    /// address on the stream that the tensor was made on; on other streams (those of [`on`](Self::on)), when
    /// it is done. The elements must not be written to.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in the emulator; what ordering the tensor's stream after the making of the
    /// tensor runs into.
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
                let reading = self.read_on("as_raw", "the tensor", &self.stream)?;
                Ok(reading.pointer::<u8>().cast_mut().cast())
            }
            Storage::Emulated(_) => Err(Error::Unsupported {
                device: self.device().to_string(),
                what: "addresses for others",
            }),
        }
    }
}
