//! The memory behind a tensor, on each kind of device.

use std::sync::Arc;

use super::emulator::EmulatedBuffer;
use super::gpu::{GpuBuffer, GpuStream};
use super::raw::{Owner, RawPointer};
use crate::dtype::{DType, Element, as_bytes, as_bytes_mut, bf16, f16};
use crate::error::Result;
pub(crate) use crate::host_memory::reserve;
use crate::host_memory::zeroed;

/// A tensor's elements.
pub(crate) enum Storage {
    Host(HostBuffer),
    Emulated(EmulatedBuffer),
    Gpu(GpuBuffer),
}

impl Storage {
    /// Overwrites bytes from `offset` on, and returns when `source` has been read.
    pub(crate) fn write(&mut self, offset: usize, source: &[u8]) -> Result<()> {
        tracing::trace!(target: "convfuse::copy", bytes = source.len(), "from the host");
        match self {
            Storage::Host(host) => {
                host.bytes_mut()[offset..][..source.len()].copy_from_slice(source);
            }
            Storage::Emulated(buffer) => buffer.write(offset, source)?,
            Storage::Gpu(buffer) => buffer.write(offset, source)?,
        }
        Ok(())
    }

    /// Copies bytes from `offset` on, and returns when the copy is complete. On a GPU the copy comes after
    /// all earlier work on `stream`.
    pub(crate) fn read(
        &self,
        stream: Option<&Arc<GpuStream>>,
        offset: usize,
        target: &mut [u8],
    ) -> Result<()> {
        tracing::trace!(target: "convfuse::copy", bytes = target.len(), "to the host");
        match self {
            Storage::Host(host) => target.copy_from_slice(&host.bytes()[offset..][..target.len()]),
            Storage::Emulated(buffer) => buffer.read(offset, target)?,
            Storage::Gpu(buffer) => {
                buffer.read(stream.unwrap_or(buffer.home()), offset, target)?;
            }
        }
        Ok(())
    }
}

/// Elements in the CPU backend's memory.
pub(crate) enum HostBuffer {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    Lent(LentMemory),
}

/// Memory of another library.
pub(crate) struct LentMemory {
    start: RawPointer,
    bytes: usize,
    #[expect(dead_code, reason = "held to be dropped")]
    owner: Owner,
}

impl LentMemory {
    /// The address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.start.addr()
    }
}

// SAFETY: the memory is ordinary, and the owner may be sent. The lender promised that all writes go through
// this value.
unsafe impl Send for LentMemory {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for LentMemory {}

impl HostBuffer {
    /// A buffer of zeros. A lack of memory is an error, not an abort.
    pub(crate) fn zeros(dtype: DType, len: usize) -> Result<HostBuffer> {
        Ok(match dtype {
            DType::F32 => HostBuffer::F32(zeroed(len)?),
            DType::F16 => HostBuffer::F16(zeroed(len)?),
            DType::BF16 => HostBuffer::BF16(zeroed(len)?),
        })
    }

    /// Wraps lent memory, which `owner` keeps alive.
    ///
    /// # Safety
    /// From `start` on there are `bytes` initialised bytes, aligned for the elements. Until `owner` is
    /// dropped, they are written only through this buffer, and not read by others while this buffer is
    /// written.
    pub(crate) unsafe fn lent(start: RawPointer, bytes: usize, owner: Owner) -> HostBuffer {
        HostBuffer::Lent(LentMemory {
            start,
            bytes,
            owner,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            HostBuffer::F32(values) => as_bytes(values),
            HostBuffer::F16(values) => as_bytes(values),
            HostBuffer::BF16(values) => as_bytes(values),
            HostBuffer::Lent(memory) if memory.bytes == 0 => &[],
            // SAFETY: the promise of `lent`.
            HostBuffer::Lent(memory) => unsafe {
                std::slice::from_raw_parts(memory.start.cast(), memory.bytes)
            },
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            HostBuffer::F32(values) => as_bytes_mut(values),
            HostBuffer::F16(values) => as_bytes_mut(values),
            HostBuffer::BF16(values) => as_bytes_mut(values),
            HostBuffer::Lent(memory) if memory.bytes == 0 => &mut [],
            // SAFETY: the promise of `lent`; the borrow is exclusive.
            HostBuffer::Lent(memory) => unsafe {
                std::slice::from_raw_parts_mut(memory.start.cast(), memory.bytes)
            },
        }
    }

    /// The bytes as elements of `T`, which must be the buffer's element type.
    pub(crate) fn elements<T: Element>(&self) -> &[T] {
        let bytes = self.bytes();
        let start: *const T = bytes.as_ptr().cast();
        if bytes.is_empty() {
            return &[];
        }
        assert!(start.is_aligned(), "lent memory was found to be aligned");
        // SAFETY: the bytes are initialised and, as just checked, aligned; any bits are a value of an element
        // type.
        unsafe { std::slice::from_raw_parts(start, bytes.len() / size_of::<T>()) }
    }
}
