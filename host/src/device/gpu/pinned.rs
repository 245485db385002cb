//! Memory of the host that the device copies from and to by itself.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError};

use cust::sys;

use super::context::Gpu;
use super::driver::{Handle, cu};
use super::stream::{GpuEvent, GpuStream};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard};

/// Page-locked memory, and the copies that still use it.
pub(crate) struct PinnedMemory {
    gpu: Arc<Gpu>,
    start: Handle<c_void>,
    bytes: usize,
    /// The last copy on each stream that has one under way: after these nothing uses the memory any more.
    pending: Mutex<Vec<Copying>>,
}

struct Copying {
    stream: Arc<GpuStream>,
    done: GpuEvent,
}

impl PinnedMemory {
    /// Zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]
    pub(crate) fn zeros(gpu: &Arc<Gpu>, bytes: usize) -> Result<PinnedMemory> {
        let _current = gpu.make_current()?;
        let mut start = std::ptr::null_mut();
        // SAFETY: `start` is a valid place for one pointer; portable memory is pinned for all contexts.
        let allocated = unsafe {
            cu!(cuMemHostAlloc(
                &mut start,
                bytes.max(1),
                sys::CU_MEMHOSTALLOC_PORTABLE
            ))
        };
        allocated.map_err(|error| match error.code {
            code if code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32 => Error::OutOfMemory {
                device: "host".to_owned(),
                requested: bytes as u64,
                available: "the system refused to pin as much".to_owned(),
            },
            _ => Error::Driver(error),
        })?;
        // SAFETY: the driver allocated `bytes` bytes from `start` on.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
        Ok(PinnedMemory {
            gpu: Arc::clone(gpu),
            start: Handle(start),
            bytes,
            pending: Mutex::default(),
        })
    }

    /// The address of `bytes` bytes from `offset` on.
    pub(super) fn pointer(&self, offset: usize, bytes: usize) -> *mut c_void {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "callers stay within the memory"
        );
        self.start.0.wrapping_byte_add(offset)
    }

    /// Notes that work given to `stream` so far uses the memory. Where it cannot be noted it is waited for.
    pub(super) fn used_by(&self, stream: &Arc<GpuStream>) -> Result<()> {
        // Recorded under the lock: of two threads' events the later one stays.
        let mut pending = self.pending();
        let Ok(done) = stream.record(false) else {
            drop(pending);
            return stream.synchronize();
        };
        match pending.iter_mut().find(|copying| copying.stream.is(stream)) {
            Some(copying) => copying.done = done,
            None => pending.push(Copying {
                stream: Arc::clone(stream),
                done,
            }),
        }
        Ok(())
    }

    /// Waits until no copy uses the memory.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut pending = self.pending();
        while let Some(copying) = pending.last() {
            copying.done.synchronize()?;
            pending.pop();
        }
        Ok(())
    }

    /// The elements. Copies to them began with an exclusive borrow of this; [`wait`](Self::wait) for those first.
    pub(crate) fn elements<T: Element>(&self) -> &[T] {
        let len = self.bytes / size_of::<T>();
        // SAFETY: `bytes` bytes from the start of a page on are initialised and live as long as this; any bits are a value.
        unsafe { std::slice::from_raw_parts(self.start.0.cast(), len) }
    }

    /// The same to be written. No copy may be using them.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        let len = self.bytes / size_of::<T>();
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.0.cast(), len) }
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Copying>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // Memory that a copy may still use, since the driver cannot tell, is left to the driver.
        if self.wait().or_else(|_| self.wait()).is_ok()
            && let Some(_current) = self.gpu.make_current_to_give_back()
        {
            // SAFETY: the memory came from `cuMemHostAlloc` and nothing uses it any more.
            unsafe { sys::cuMemFreeHost(self.start.0) };
        }
    }
}
