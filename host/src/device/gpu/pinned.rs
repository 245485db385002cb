//! Pinned (page-locked) host memory, for asynchronous copies.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cust::sys;

use super::context::Gpu;
use super::driver::{Handle, cu};
use super::stream::{GpuEvent, GpuStream, StreamKey};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard, lock};

/// The largest number of recorded copies. Beyond it, the host waits for the oldest, which is most likely
/// complete.
const MOST: usize = 1024;

/// Page-locked memory, and the copies that still use it.
///
/// Only this type orders copies of two streams. A copy that reads bytes waits for the last write of them, and
/// a copy that writes bytes waits for all their uses. Copies of different bytes, such as the chunks of a
/// batch, do not wait for each other.
pub(crate) struct PinnedMemory {
    gpu: Arc<Gpu>,
    start: Handle<c_void>,
    bytes: usize,
    /// For each stream and range of bytes, the last copy in flight. When all of them are complete, nothing
    /// uses the memory.
    pending: Mutex<Vec<Copying>>,
}

struct Copying {
    /// The stream, which may have been destroyed.
    stream: StreamKey,
    usage: Use,
    done: GpuEvent,
}

/// A copy's use of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) bytes: Range<usize>,
    pub(super) writes: bool,
}

impl Use {
    /// Whether the two must not run at the same time.
    fn excludes(&self, other: &Use) -> bool {
        let meet = self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end;
        meet && (self.writes || other.writes)
    }
}

impl PinnedMemory {
    /// Allocates zeros.
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

    /// Returns the address of the bytes for the next copy on `stream`, which is ordered after conflicting
    /// copies of other streams.
    pub(super) fn open(&self, stream: &Arc<GpuStream>, usage: &Use) -> Result<*mut c_void> {
        let Range { start, end } = usage.bytes;
        assert!(
            start <= end && end <= self.bytes,
            "callers stay within the memory"
        );
        let pending = self.pending();
        let others = pending
            .iter()
            .filter(|copying| copying.stream != stream.key());
        for copying in others.filter(|copying| copying.usage.excludes(usage)) {
            stream.wait(&copying.done)?;
        }
        Ok(self.start.0.wrapping_byte_add(start))
    }

    /// Records that work given to `stream` so far uses the memory. If recording fails, waits for that work.
    pub(super) fn used_by(&self, stream: &Arc<GpuStream>, usage: Use) -> Result<()> {
        // The event is recorded under the lock, so that the later of two threads' events is kept.
        let mut pending = self.pending();
        let Ok(done) = stream.record(false) else {
            drop(pending);
            return stream.finish();
        };
        let mut own = pending
            .iter_mut()
            .filter(|copying| copying.stream == stream.key());
        if let Some(copying) = own.find(|copying| copying.usage == usage) {
            copying.done = done;
            return Ok(());
        }
        pending.push(Copying {
            stream: stream.key(),
            usage,
            done,
        });
        if pending.len() > MOST {
            pending.remove(0).done.synchronize()?;
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

    /// The elements. Call [`wait`](Self::wait) first, because copies to them may be in flight.
    pub(crate) fn elements<T: Element>(&self) -> &[T] {
        let len = self.bytes / size_of::<T>();
        // SAFETY: the `bytes` bytes start at a page, are initialised, and live as long as `self`; any bits
        // are a value.
        unsafe { std::slice::from_raw_parts(self.start.0.cast(), len) }
    }

    /// The elements, for writing. No copy may be in flight.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        let len = self.bytes / size_of::<T>();
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.0.cast(), len) }
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Copying>> {
        lock(&self.pending)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // If waiting fails, a copy may still use the memory, so it is leaked.
        if self.wait().or_else(|_| self.wait()).is_ok()
            && let Some(_current) = self.gpu.make_current_to_give_back()
        {
            // SAFETY: the memory came from `cuMemHostAlloc` and is no longer used.
            unsafe { sys::cuMemFreeHost(self.start.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks all pairs of copies within a few bytes against the bytes that they share.
    #[test]
    fn copies_exclude_one_another_that_share_a_byte_which_one_of_them_writes() {
        const BYTES: usize = 5;
        let ranges = (0..BYTES).flat_map(|start| (start + 1..=BYTES).map(move |end| start..end));
        let uses = ranges.flat_map(|bytes| {
            [false, true].map(|writes| Use {
                bytes: bytes.clone(),
                writes,
            })
        });
        let uses: Vec<Use> = uses.collect();
        let pairs = uses
            .iter()
            .flat_map(|one| uses.iter().map(move |other| (one, other)));
        for (one, other) in pairs {
            let meet = one.bytes.clone().any(|byte| other.bytes.contains(&byte));
            let excludes = meet && (one.writes || other.writes);
            assert_eq!(one.excludes(other), excludes, "{one:?} and {other:?}");
        }
    }
}
