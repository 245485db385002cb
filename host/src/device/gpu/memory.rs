//! Device memory in stream order.
//!
//! A buffer belongs to its *home* stream. It may be used there from its allocation on, without a wait on the
//! host, and is freed in that stream's order. That holds for memory of the GPU's own pool, of a caller's
//! allocator, and for lent memory. Another stream may read a buffer, too:
//!
//! 1. Before the read, it waits for an event that the home stream recorded after the buffer was written.
//! 2. After the read, it records an event, for which the home stream waits before it frees the buffer.
//!
//! A buffer is written once, before any other stream can read it, so nothing else needs ordering. Lent memory
//! may be written again in the order of its home stream, so each reader waits for an event of its own.
//!
//! A graph can do neither, because it cannot wait for an event outside of it. The wait is unnecessary if the
//! graph's stream has read the buffer before: that read came after the write, and so does all later work of
//! the stream. Instead of the event, the graph's holder keeps the buffer. A home stream in capture can
//! neither record when a buffer was written nor free one: the first is an error, the second is deferred until
//! after the capture.

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
    /// Uninitialised memory, from `allocator` or else the GPU's pool; a null pointer for no bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::InCapture`] for memory of the pool while the stream is in capture.
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
                // SAFETY: the stream is alive, of this GPU, and not in capture.
                let pointer = unsafe { gpu.pool.allocate(home.raw()?, bytes, || gpu.to_name()) }?;
                (pointer, Source::Pool(counted))
            }
        };
        counters.allocated(bytes as u64);
        Ok(GpuBuffer::with(home, pointer, bytes, source))
    }

    /// Lent memory, which `owner` keeps alive.
    ///
    /// # Safety
    /// The memory has `bytes` bytes in the primary context of the stream's GPU. Until `owner` is dropped,
    /// work given to `home` may read it, and write it where this library is asked to; accesses by others are
    /// ordered with that stream.
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

    /// Copies `source` in from `offset` on, and returns when it has been read.
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

    /// Queues a copy of `bytes` bytes of `source`, from `first` on, to those from `offset` on, in the order
    /// of the home stream.
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
        // SAFETY: `open` saw that the source has as many bytes; they stay until the copy is done, since
        // `used_by` records it, or else waits for it.
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

    /// Copies bytes from `offset` on out, after all earlier work on `stream`, and returns when they are
    /// there.
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
        // SAFETY: both sides hold as many bytes. The host waits here, so the target outlives the copy and
        // the buffer cannot be freed before it.
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

    /// Queues a copy of `bytes` bytes from `offset` on to those of `target` from `first` on, in the order of
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
        // SAFETY: `open` saw that the target has as many bytes, which stay as `write_pinned` says; nobody
        // else uses them meanwhile, since the target is borrowed mutably here and waits before it is seen
        // again.
        unsafe { cu!(cuMemcpyDtoHAsync_v2(to, from, bytes, stream.raw()?))? };
        let noted = self.after_read(stream);
        target.used_by(stream, usage).and(noted)
    }

    /// The address of `bytes` bytes from `offset` on.
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
