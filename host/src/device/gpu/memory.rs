//! Device memory in stream order.
//!
//! A buffer belongs to its *home* stream. The home stream may use it right after the allocation, without a
//! wait on the host, and frees it in its order. This holds for memory of the GPU's own pool, of a caller's
//! allocator, and for lent memory. Another stream may also read a buffer:
//!
//! 1. Before the read, the reader waits for an event that the home stream recorded after the buffer was
//!    written.
//! 2. After the read, the reader records an event. The home stream waits for it before it frees the buffer.
//!
//! A buffer is written once, before any other stream can read it, so nothing else needs ordering. Lent memory
//! may be written again in the order of its home stream, so each reader waits for an event of its own.
//!
//! A graph cannot do either, because it cannot wait for an event outside of it. The wait is unnecessary if
//! the graph's stream has read the buffer before: that read came after the write, and so does all later work
//! of the stream. Instead of recording an event, the graph's holder keeps the buffer. A home stream in
//! capture can neither record that a buffer was written, which is an error, nor free a buffer, which is
//! deferred until after the capture.

mod piece;
mod reads;

use std::ffi::c_void;
use std::sync::Arc;

use cust::sys;

use super::driver::cu;
use super::pinned::{PinnedMemory, Use};
use super::stream::{GpuEvent, GpuStream};
use crate::device::counters::Counters;
use crate::device::raw::{DeviceAllocator, Owner};
use crate::error::Result;
use crate::sync::{Mutex, OnceLock, unlocked};
use piece::{Piece, Source, from_allocator};
use reads::Read;

/// A buffer in a GPU's memory.
pub(crate) struct GpuBuffer {
    home: Arc<GpuStream>,
    written: OnceLock<GpuEvent>,
    /// The last read by each foreign stream.
    reads: Mutex<Vec<Read>>,
    /// The memory, which is freed on drop.
    piece: Option<Piece>,
}

impl GpuBuffer {
    /// Allocates uninitialised memory from `allocator`, or else from the GPU's pool; a null pointer for 0
    /// bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::InCapture`] if the stream is in capture and the memory is of the
    /// pool.
    pub(crate) fn allocate(
        home: &Arc<GpuStream>,
        counters: &Arc<Counters>,
        allocator: Option<&Arc<dyn DeviceAllocator>>,
        bytes: usize,
    ) -> Result<GpuBuffer> {
        let gpu = &home.gpu;
        let current = gpu.make_current()?;
        let counted = Arc::clone(counters);
        let (pointer, source) = match (bytes, allocator) {
            (0, _) => (0, Source::Pool(counted)),
            (_, Some(allocator)) => {
                let pointer = from_allocator(home, &**allocator, bytes)?;
                (pointer, Source::Allocator(counted, Arc::clone(allocator)))
            }
            (_, None) => {
                home.must_not_capture("allocate memory")?;
                home.give_back_kept(&current);
                // SAFETY: the stream is alive, belongs to this GPU, and is not in capture.
                let pointer = unsafe { gpu.pool.allocate(home.raw()?, bytes, || gpu.to_name()) }?;
                (pointer, Source::Pool(counted))
            }
        };
        counters.allocated(bytes as u64);
        Ok(GpuBuffer::with(home, pointer, bytes, source))
    }

    /// Wraps lent memory, which `owner` keeps alive.
    ///
    /// # Safety
    /// The memory has `bytes` bytes in the primary context of the stream's GPU. Until `owner` is dropped,
    /// work of `home` may read it, and write it if this library is asked to. Accesses by others are ordered
    /// with that stream.
    pub(crate) unsafe fn lent(
        home: &Arc<GpuStream>,
        pointer: sys::CUdeviceptr,
        bytes: usize,
        owner: Owner,
    ) -> GpuBuffer {
        GpuBuffer::with(home, pointer, bytes, Source::Lender(owner))
    }

    fn with(
        home: &Arc<GpuStream>,
        pointer: sys::CUdeviceptr,
        bytes: usize,
        source: Source,
    ) -> GpuBuffer {
        GpuBuffer {
            home: Arc::clone(home),
            written: OnceLock::new(),
            reads: Mutex::default(),
            piece: Some(Piece {
                pointer,
                bytes,
                source,
                reads: Vec::new(),
            }),
        }
    }

    fn piece(&self) -> &Piece {
        self.piece.as_ref().expect("it is taken on drop only")
    }

    fn is_lent(&self) -> bool {
        matches!(self.piece().source, Source::Lender(_))
    }

    /// The address of the first byte.
    pub(crate) fn pointer(&self) -> sys::CUdeviceptr {
        self.piece().pointer
    }

    pub(crate) fn bytes(&self) -> usize {
        self.piece().bytes
    }

    /// Copies `source` to the buffer from `offset` on, and returns when `source` has been read.
    pub(crate) fn write(&mut self, offset: usize, source: &[u8]) -> Result<()> {
        if source.is_empty() {
            return Ok(());
        }
        let to = self.range(offset, source.len());
        let _current = self.home.gpu.make_current()?;
        self.home.must_not_capture("wait for a copy")?;
        let stream = self.home.raw()?;
        // SAFETY: both sides hold `source.len()` bytes, and the source outlives the copy because of the wait.
        unsafe {
            cu!(cuMemcpyHtoDAsync_v2(
                to,
                source.as_ptr().cast(),
                source.len(),
                stream
            ))?;
        }
        self.home.finish()
    }

    /// Queues a copy of `bytes` bytes, from `first` of `source` to `offset` of this buffer, in the order of
    /// the home stream.
    pub(crate) fn write_pinned(
        &mut self,
        offset: usize,
        bytes: usize,
        source: &PinnedMemory,
        first: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let to = self.range(offset, bytes);
        let _current = self.home.gpu.make_current()?;
        self.home.must_not_capture("copy from the host")?;
        let usage = Use {
            bytes: first..first + bytes,
            writes: false,
        };
        let from = source.open(&self.home, &usage)?.cast();
        // SAFETY: `open` checked that the source has as many bytes. They stay until the copy is complete,
        // since `used_by` records the copy, or else waits for it.
        unsafe { cu!(cuMemcpyHtoDAsync_v2(to, from, bytes, self.home.raw()?))? };
        source.used_by(&self.home, usage)
    }

    /// Sets every byte to zero, in stream order.
    pub(crate) fn zero(&mut self) -> Result<()> {
        if self.bytes() == 0 {
            return Ok(());
        }
        let _current = self.home.gpu.make_current()?;
        // SAFETY: the range is the buffer's own.
        unsafe {
            Ok(cu!(cuMemsetD8Async(
                self.pointer(),
                0,
                self.bytes(),
                self.home.raw()?
            ))?)
        }
    }

    /// Copies bytes out, from `offset` on, after all earlier work on `stream`. Returns when the copy is
    /// complete.
    pub(crate) fn read(
        &self,
        stream: &Arc<GpuStream>,
        offset: usize,
        target: &mut [u8],
    ) -> Result<()> {
        if target.is_empty() {
            return Ok(());
        }
        let from = self.range(offset, target.len());
        self.before_read(stream)?;
        let _current = self.home.gpu.make_current()?;
        stream.must_not_capture("wait for a copy")?;
        let raw = stream.raw()?;
        // SAFETY: both sides have as many bytes. The host waits here, so the target outlives the copy and the
        // buffer cannot be freed before it.
        unsafe {
            cu!(cuMemcpyDtoHAsync_v2(
                target.as_mut_ptr().cast::<c_void>(),
                from,
                target.len(),
                raw
            ))?;
        }
        stream.finish()
    }

    /// Queues a copy of `bytes` bytes, from `offset` of this buffer to `first` of `target`, in the order of
    /// `stream`.
    pub(crate) fn read_pinned(
        &self,
        stream: &Arc<GpuStream>,
        offset: usize,
        bytes: usize,
        target: &mut PinnedMemory,
        first: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let from = self.range(offset, bytes);
        self.before_read(stream)?;
        let _current = self.home.gpu.make_current()?;
        stream.must_not_capture("copy to the host")?;
        let usage = Use {
            bytes: first..first + bytes,
            writes: true,
        };
        let to = target.open(stream, &usage)?.cast();
        // SAFETY: `open` checked that the target has as many bytes, and they stay as in `write_pinned`.
        // Nobody else uses them during the copy, since the target is borrowed mutably here and waits before
        // its elements are read.
        unsafe { cu!(cuMemcpyDtoHAsync_v2(to, from, bytes, stream.raw()?))? };
        let noted = self.after_read(stream);
        target.used_by(stream, usage).and(noted)
    }

    /// The address of a range of `bytes` bytes from `offset` on.
    pub(super) fn range(&self, offset: usize, bytes: usize) -> sys::CUdeviceptr {
        assert!(
            offset <= self.bytes() && bytes <= self.bytes() - offset,
            "callers stay within the buffer"
        );
        self.pointer() + offset as u64
    }

    pub(crate) fn home(&self) -> &Arc<GpuStream> {
        &self.home
    }
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        let Some(mut piece) = self.piece.take() else {
            return;
        };
        let bytes = piece.bytes;
        tracing::trace!(target: "convfuse::memory", bytes, "memory is given back");
        if let Source::Pool(counters) | Source::Allocator(counters, _) = &piece.source {
            counters.freed(piece.bytes as u64);
        }
        piece.reads = std::mem::take(unlocked(&mut self.reads));
        if piece.bytes != 0 {
            self.home.take_back(Box::new(piece));
        }
    }
}
