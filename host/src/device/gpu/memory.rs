//! Device memory in stream order.
//!
//! A buffer is allocated and freed in the order of its *home* stream, without waiting on the host:
//! `cuMemAllocAsync` hands out memory that work on that stream may use from then on, `cuMemFreeAsync`
//! takes it back once earlier work on the stream is done. Another stream may read a buffer, too:
//!
//! 1. before, it waits for an event that the home stream recorded after the buffer was written;
//! 2. after, it leaves an event behind, for which the home stream waits before it frees.
//!
//! A buffer is written once, before anybody else can see it, so nothing else needs ordering.
//!
//! A graph can do neither, since an event outside of it is nothing that it could wait for. It need not where its stream
//! has read the buffer before: that read came after the writing, and so does everything on the stream since. For the
//! second rule whoever holds the graph keeps the buffer.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cust::sys;

use super::context::Gpu;
use super::driver::cu;
use super::stream::{GpuEvent, GpuStream};
use crate::device::counters::Counters;
use crate::error::{DriverError, Error, Result};

/// A piece of a GPU's memory.
pub(crate) struct GpuBuffer {
    pub(crate) pointer: sys::CUdeviceptr,
    bytes: usize,
    home: Arc<GpuStream>,
    counters: Arc<Counters>,
    written: OnceLock<GpuEvent>,
    /// The last read by each foreign stream, by its handle.
    reads: Mutex<HashMap<usize, (Arc<GpuStream>, GpuEvent)>>,
}

impl GpuBuffer {
    /// Memory of unspecified content; a null pointer for no bytes.
    pub(crate) fn allocate(
        home: &Arc<GpuStream>,
        counters: &Arc<Counters>,
        bytes: usize,
    ) -> Result<GpuBuffer> {
        let pointer = match bytes {
            0 => 0,
            _ => home.gpu.allocate(home, bytes)?,
        };
        counters.allocated(bytes as u64);
        Ok(GpuBuffer {
            pointer,
            bytes,
            home: Arc::clone(home),
            counters: Arc::clone(counters),
            written: OnceLock::new(),
            reads: Mutex::default(),
        })
    }

    /// Copies `source` in, and returns when it has been read.
    pub(crate) fn write(&mut self, source: &[u8]) -> Result<(), DriverError> {
        assert_eq!(
            source.len(),
            self.bytes,
            "callers pass exactly the buffer's bytes"
        );
        if self.bytes == 0 {
            return Ok(());
        }
        let _current = self.home.gpu.make_current()?;
        // SAFETY: both sides hold `bytes` bytes, and the source outlives the copy because of the wait.
        unsafe {
            cu!(cuMemcpyHtoDAsync_v2(
                self.pointer,
                source.as_ptr().cast(),
                self.bytes,
                self.home.raw.0
            ))?;
            cu!(cuStreamSynchronize(self.home.raw.0))
        }
    }

    /// Sets every byte to zero, in stream order.
    pub(crate) fn zero(&mut self) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let _current = self.home.gpu.make_current()?;
        // SAFETY: the range is the buffer's own.
        unsafe {
            cu!(cuMemsetD8Async(
                self.pointer,
                0,
                self.bytes,
                self.home.raw.0
            ))
        }
    }

    /// Copies the content out after all earlier work on `stream`, and returns when it is there.
    pub(crate) fn read(&self, stream: &Arc<GpuStream>, target: &mut [u8]) -> Result<()> {
        assert_eq!(
            target.len(),
            self.bytes,
            "callers pass exactly the buffer's bytes"
        );
        if self.bytes == 0 {
            return Ok(());
        }
        self.before_read(stream)?;
        let _current = self.home.gpu.make_current()?;
        // SAFETY: both sides hold `bytes` bytes. The host waits here, so the target outlives the copy and
        // the buffer cannot be freed before it.
        unsafe {
            cu!(cuMemcpyDtoHAsync_v2(
                target.as_mut_ptr().cast::<c_void>(),
                self.pointer,
                self.bytes,
                stream.raw.0
            ))?;
            cu!(cuStreamSynchronize(stream.raw.0))?;
        }
        Ok(())
    }

    /// Orders work that `stream` gets from now on after the writing of this buffer.
    ///
    /// # Errors
    /// [`Error::ForeignInCapture`] if that work goes to a graph, and the stream has not read the buffer before.
    pub(crate) fn before_read(&self, stream: &Arc<GpuStream>) -> Result<()> {
        if stream.raw.0 == self.home.raw.0 {
            return Ok(());
        }
        if stream.is_capturing()? {
            return if self.was_read_by(stream) {
                Ok(())
            } else {
                Err(Error::ForeignInCapture)
            };
        }
        let event = match self.written.get() {
            Some(event) => event,
            // Two threads may both record; either event comes after the writing.
            None => {
                let event = self.home.record(false)?;
                self.written.get_or_init(|| event)
            }
        };
        Ok(stream.wait(event)?)
    }

    /// Whether `stream` has read the buffer as it is now.
    fn was_read_by(&self, stream: &GpuStream) -> bool {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.contains_key(&(stream.raw.0 as usize))
    }

    /// Notes that `stream` reads the buffer up to this point: it will not be freed before.
    pub(crate) fn after_read(&self, stream: &Arc<GpuStream>) -> Result<(), DriverError> {
        if stream.raw.0 == self.home.raw.0 || stream.is_capturing()? {
            return Ok(());
        }
        let noted = stream.record(false).map(|event| {
            let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
            reads.insert(stream.raw.0 as usize, (Arc::clone(stream), event));
        });
        // Without an event only waiting keeps the buffer alive for long enough.
        noted.or_else(|_| stream.synchronize())
    }

    /// Lets the home stream wait for every foreign read so far, so that it may write or free.
    pub(crate) fn settle_reads(&mut self) -> Result<(), DriverError> {
        let reads = self.reads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, (stream, event)) in reads.drain() {
            self.home.wait(&event).or_else(|_| stream.synchronize())?;
        }
        Ok(())
    }

    /// To be called before the home stream overwrites a buffer that was readable until now.
    pub(crate) fn before_rewrite(&mut self) -> Result<(), DriverError> {
        self.written = OnceLock::new();
        self.settle_reads()
    }

    pub(crate) fn home(&self) -> &Arc<GpuStream> {
        &self.home
    }
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        self.counters.freed(self.bytes as u64);
        if self.bytes == 0 || self.settle_reads().is_err() {
            // A context that cannot even order streams is lost, and its memory with it.
            return;
        }
        self.home.gpu.free(&self.home, self.pointer);
    }
}

impl Gpu {
    fn allocate(&self, stream: &GpuStream, bytes: usize) -> Result<sys::CUdeviceptr> {
        let _current = self.make_current()?;
        let mut pointer = 0;
        let mut attempt = || {
            // SAFETY: `pointer` is a valid place for one device pointer; the stream is of this context.
            unsafe {
                match self.pool {
                    Some(_) => cu!(cuMemAllocAsync(&mut pointer, bytes, stream.raw.0)),
                    None => cu!(cuMemAlloc_v2(&mut pointer, bytes)),
                }
            }
        };
        let is_memory =
            |error: &DriverError| error.code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
        let first = attempt();
        let result = match (first, &self.pool) {
            (Err(error), Some(pool)) if is_memory(&error) => {
                // Freed memory that waits in the pool in pieces of the wrong size: give it back, try again.
                // This is the one place where running short makes the host wait.
                stream.synchronize()?;
                // SAFETY: the pool is the device's default one.
                unsafe { cu!(cuMemPoolTrimTo(pool.0, 0))? };
                attempt()
            }
            (first, _) => first,
        };
        match result {
            Ok(()) => Ok(pointer),
            Err(error) if is_memory(&error) => {
                let (mut free, mut total) = (0, 0);
                // SAFETY: two valid places for the two sizes.
                let known = unsafe { cu!(cuMemGetInfo_v2(&mut free, &mut total)) };
                let available = match known {
                    Ok(()) => format!("{free} of {total} free"),
                    Err(_) => "free memory unknown".to_owned(),
                };
                Err(Error::OutOfMemory {
                    device: self.to_name(),
                    requested: bytes as u64,
                    available,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn free(&self, stream: &GpuStream, pointer: sys::CUdeviceptr) {
        let Ok(_current) = self.make_current() else {
            return;
        };
        // SAFETY: `pointer` came from `allocate` on this stream and its buffer is being dropped. With a
        // pool, freeing is ordered after all work on the stream; without, the host waits for that work.
        // A failure here has nobody to report to and leaks at worst.
        unsafe {
            if self.pool.is_some() {
                sys::cuMemFreeAsync(pointer, stream.raw.0);
            } else {
                sys::cuStreamSynchronize(stream.raw.0);
                sys::cuMemFree_v2(pointer);
            }
        }
    }
}
