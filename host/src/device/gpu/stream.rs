//! Streams and events of a GPU. They wrap the driver's handles, so that another library's stream can be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cust::sys;

use super::context::Gpu;
use super::driver::{Current, Handle, check, cu, late_function};
use crate::error::{Error, Result};
use crate::sync::{self, Mutex, MutexGuard, ThreadId, lock};

/// The driver's handles of the two default streams.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// A stream of a GPU.
pub(crate) struct GpuStream {
    pub(crate) gpu: Arc<Gpu>,
    raw: Handle<sys::CUstream_st>,
    origin: Origin,
    key: StreamKey,
    /// Resources that could not be released while the stream was in capture.
    kept: Mutex<Vec<Box<dyn GiveBack>>>,
}

/// The owner of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Created here, and destroyed on drop.
    Own,
    /// Created and destroyed by another library.
    Foreign,
    /// The default stream of this thread. In another thread, the same handle is another stream.
    OfThread(ThreadId),
}

/// The identity of a stream, which outlives it: the stream may have been destroyed, and its handle reused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamKey {
    ordinal: u32,
    /// The driver's number of the stream, unique for the life of the process. Before CUDA 12 it is the
    /// handle. For a stream that was in capture when the key was made, it is a unique number of this library.
    id: u64,
    /// The thread of a per-thread default stream, whose handle is ambiguous.
    thread: Option<ThreadId>,
}

impl StreamKey {
    /// Makes the key of a stream. `raw` is a stream of the current context, which belongs to `gpu`, or the
    /// calling thread's default stream; not null.
    unsafe fn of(gpu: &Gpu, raw: sys::CUstream, origin: Origin) -> Result<StreamKey> {
        type GetId = unsafe extern "C" fn(sys::CUstream, *mut u64) -> sys::CUresult;
        late_function! { static GET_ID: GetId = c"cuStreamGetId" }
        // Counts down from numbers that the driver does not use.
        static NAMELESS: AtomicU64 = AtomicU64::new(u64::MAX - 1);
        let mut id = raw.addr() as u64;
        // A query of the number of a stream in capture fails, and invalidates the capture.
        if raw.addr() == LEGACY {
            // The legacy default stream is a single stream, which cannot be captured.
            id = u64::MAX;
        // SAFETY: the caller's promise.
        } else if unsafe { is_capturing(raw)? } {
            // The new number equals no known stream; at worst, this causes an unnecessary wait.
            id = NAMELESS.fetch_sub(1, Ordering::Relaxed);
        } else if let Some(get_id) = *GET_ID {
            // SAFETY: the caller's promise; `id` is a place for one number.
            check("cuStreamGetId", unsafe { get_id(raw, &mut id) })?;
        }
        let thread = match origin {
            Origin::OfThread(thread) => Some(thread),
            Origin::Own | Origin::Foreign => None,
        };
        Ok(StreamKey {
            ordinal: gpu.ordinal,
            id,
            thread,
        })
    }
}

/// Whether a stream is in capture.
///
/// # Safety
/// `raw` is a stream of the current context, or the calling thread's default stream.
unsafe fn is_capturing(raw: sys::CUstream) -> Result<bool> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the caller's promise; `status` is a valid place for one status.
    unsafe { cu!(cuStreamIsCapturing(raw, &mut status))? };
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// A resource that is released in the order of a stream.
pub(super) trait GiveBack: Send + Sync {
    /// Queues the release on the stream, whose context is current and which is not in capture.
    fn give_back(self: Box<Self>, stream: &GpuStream, current: &Current);
}

impl GpuStream {
    /// Makes a new stream. It does not synchronise with the legacy default stream.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<GpuStream> {
        let _current = gpu.make_current()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `raw` is a valid place for one handle.
        unsafe { cu!(cuStreamCreateWithPriority(&mut raw, flags, 0))? };
        // SAFETY: the stream was made in the current context.
        unsafe { GpuStream::with(gpu, raw, Origin::Own) }.inspect_err(|_| {
            // SAFETY: nobody else has the handle.
            unsafe { sys::cuStreamDestroy_v2(raw) };
        })
    }

    /// # Safety
    /// As [`StreamKey::of`].
    unsafe fn with(gpu: &Arc<Gpu>, raw: sys::CUstream, origin: Origin) -> Result<GpuStream> {
        Ok(GpuStream {
            gpu: Arc::clone(gpu),
            raw: Handle(raw),
            origin,
            // SAFETY: the caller's promise.
            key: unsafe { StreamKey::of(gpu, raw, origin)? },
            kept: Mutex::default(),
        })
    }

    /// Wraps a stream that another library owns, or one of the default streams.
    ///
    /// # Safety
    /// `raw` is a stream of `gpu`'s primary context and outlives the result.
    pub(crate) unsafe fn from_raw(gpu: &Arc<Gpu>, raw: sys::CUstream) -> Result<GpuStream> {
        let (raw, origin) = match raw.addr() {
            // Null is another handle of the legacy default stream.
            0 | LEGACY => (std::ptr::without_provenance_mut(LEGACY), Origin::Foreign),
            PER_THREAD => (raw, Origin::OfThread(sync::current().id())),
            _ => (raw, Origin::Foreign),
        };
        let _current = gpu.make_current()?;
        // SAFETY: the caller's promise; the context is current.
        unsafe { GpuStream::with(gpu, raw, origin) }
    }

    /// The handle, for calls of this thread.
    ///
    /// # Errors
    /// [`Error::OtherThread`] for the default stream of another thread.
    pub(crate) fn raw(&self) -> Result<sys::CUstream> {
        match self.origin {
            Origin::OfThread(id) if id != sync::current().id() => Err(Error::OtherThread),
            _ => Ok(self.raw.0),
        }
    }

    /// Whether the two are the same stream.
    pub(crate) fn is(&self, other: &GpuStream) -> bool {
        self.key == other.key
    }

    /// The stream's identity.
    pub(super) fn key(&self) -> StreamKey {
        self.key
    }

    /// Waits on the host until all work given to the stream so far is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _current = self.gpu.make_current()?;
        // SAFETY: the stream is alive.
        Ok(unsafe { cu!(cuStreamSynchronize(self.raw()?)) }?)
    }

    /// Waits like [`synchronize`](Self::synchronize), but works in any thread, before memory is returned to
    /// its owner. For another thread's default stream, which has no handle here, it waits for all work of the
    /// device. If waiting fails, it tries once more, and returns the first error.
    pub(super) fn finish(&self) -> Result<()> {
        let wait = || match self.synchronize() {
            Err(Error::OtherThread) => {
                let _current = self.gpu.make_current()?;
                // SAFETY: the context is current.
                Ok(unsafe { cu!(cuCtxSynchronize()) }?)
            }
            outcome => outcome,
        };
        wait().inspect_err(|_| drop(wait()))
    }

    /// Whether the stream is in capture.
    pub(crate) fn is_capturing(&self) -> Result<bool> {
        let _current = self.gpu.make_current()?;
        // SAFETY: the stream is alive.
        unsafe { is_capturing(self.raw()?) }
    }

    /// Refuses an operation that a graph cannot contain, if the stream is in capture.
    pub(crate) fn must_not_capture(&self, what: &'static str) -> Result<()> {
        match self.is_capturing()? {
            true => Err(Error::InCapture { what }),
            false => Ok(()),
        }
    }

    /// Records an event that completes when all work given to the stream so far is complete.
    pub(crate) fn record(&self, timing: bool) -> Result<GpuEvent> {
        let _current = self.gpu.make_current()?;
        let event = GpuEvent::new(&self.gpu, timing)?;
        // SAFETY: stream and event are alive and of one context.
        unsafe { cu!(cuEventRecord(event.raw.0, self.raw()?))? };
        Ok(event)
    }

    /// Makes work given to the stream from now on wait for `event`; the host does not wait.
    pub(crate) fn wait(&self, event: &GpuEvent) -> Result<()> {
        let _current = self.gpu.make_current()?;
        // SAFETY: stream and event are alive; the driver allows them to be of different contexts.
        Ok(unsafe { cu!(cuStreamWaitEvent(self.raw()?, event.raw.0, 0)) }?)
    }

    /// Releases a resource in the order of the stream: now, or after the stream's capture.
    pub(super) fn take_back(&self, item: Box<dyn GiveBack>) {
        let Some(current) = self.gpu.make_current_to_give_back() else {
            // A forked process has nothing to release.
            return;
        };
        match self.is_capturing() {
            // The default stream of another thread is handled separately.
            Ok(false) => {
                self.give_back_kept(&current);
                item.give_back(self, &current);
            }
            Err(Error::OtherThread) => item.give_back(self, &current),
            Ok(true) | Err(_) => self.kept().push(item),
        }
    }

    /// Calls a function that a capture does not allow: now, or after the stream's capture.
    pub(crate) fn outside_of_captures(
        &self,
        then: impl FnOnce(&GpuStream) + Send + Sync + 'static,
    ) {
        self.take_back(Box::new(Later(then)));
    }

    /// Releases the resources that waited for the end of a capture. The stream is not in capture.
    pub(super) fn give_back_kept(&self, current: &Current) {
        let kept = std::mem::take(&mut *self.kept());
        for item in kept {
            item.give_back(self, current);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Box<dyn GiveBack>>> {
        lock(&self.kept)
    }
}

/// A deferred call, for use after a capture.
struct Later<F>(F);

impl<F: FnOnce(&GpuStream) + Send + Sync> GiveBack for Later<F> {
    fn give_back(self: Box<Self>, stream: &GpuStream, _current: &Current) {
        (self.0)(stream);
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        let Some(current) = self.gpu.make_current_to_give_back() else {
            return;
        };
        if self.origin != Origin::Own && self.kept().is_empty() {
            // The process owns no resources of the stream.
            return;
        }
        // Ask twice, because the stream is dropped now.
        let is_capturing = || self.is_capturing().or_else(|_| self.is_capturing());
        let mut capturing = is_capturing();
        if let (Ok(true), Origin::Own) = (&capturing, self.origin) {
            // End the capture: once the stream is dropped, no caller can.
            let mut graph = std::ptr::null_mut();
            // SAFETY: the stream is alive; `graph` is a place for one handle, which nobody else has.
            unsafe {
                sys::cuStreamEndCapture(self.raw.0, &mut graph);
                if !graph.is_null() {
                    sys::cuGraphDestroy(graph);
                }
            }
            capturing = is_capturing();
        }
        if matches!(capturing, Ok(false) | Err(Error::OtherThread)) {
            self.give_back_kept(&current);
        }
        if self.origin == Origin::Own {
            // SAFETY: the handle is ours and no longer used elsewhere. The driver lets queued work of the
            // stream finish.
            unsafe {
                sys::cuStreamDestroy_v2(self.raw.0);
            }
        }
    }
}

/// An event of a GPU.
pub(crate) struct GpuEvent {
    gpu: Arc<Gpu>,
    raw: Handle<sys::CUevent_st>,
}

impl GpuEvent {
    fn new(gpu: &Arc<Gpu>, timing: bool) -> Result<GpuEvent> {
        let mut raw = std::ptr::null_mut();
        let flags = if timing {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        // SAFETY: `raw` is a valid place for one handle; the caller made the context current.
        unsafe { cu!(cuEventCreate(&mut raw, flags as u32))? };
        Ok(GpuEvent {
            gpu: Arc::clone(gpu),
            raw: Handle(raw),
        })
    }

    /// Waits on the host for the event.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _current = self.gpu.make_current()?;
        // SAFETY: the event is alive.
        Ok(unsafe { cu!(cuEventSynchronize(self.raw.0)) }?)
    }

    /// Device time between two recorded events; waits on the host for both.
    pub(crate) fn since(&self, start: &GpuEvent) -> Result<Duration> {
        start.synchronize()?;
        self.synchronize()?;
        let _current = self.gpu.make_current()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both events are alive and complete; `milliseconds` is a valid place for one float.
        unsafe {
            cu!(cuEventElapsedTime(
                &mut milliseconds,
                start.raw.0,
                self.raw.0
            ))?
        };
        Ok(Duration::from_secs_f64(
            f64::from(milliseconds.max(0.0)) * 1e-3,
        ))
    }
}

impl Drop for GpuEvent {
    fn drop(&mut self) {
        if let Some(_current) = self.gpu.make_current_to_give_back() {
            // SAFETY: the handle is ours; the driver keeps a pending event's state until it completes.
            unsafe {
                sys::cuEventDestroy_v2(self.raw.0);
            }
        }
    }
}
