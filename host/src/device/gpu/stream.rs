//! Streams and events of a GPU, on the driver's own handles so that another library's stream can be used.

use std::sync::Arc;
use std::time::Duration;

use cust::sys;

use super::context::Gpu;
use super::driver::{Handle, cu};
use crate::error::{DriverError, Result};

/// A stream of a GPU.
pub(crate) struct GpuStream {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) raw: Handle<sys::CUstream_st>,
    /// Whether this process' side of the library made the stream, and so destroys it.
    owned: bool,
}

impl GpuStream {
    /// A new stream that does not wait for the legacy default stream, nor the other way round.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<GpuStream, DriverError> {
        let _current = gpu.make_current()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `raw` is a valid place for one handle.
        unsafe { cu!(cuStreamCreateWithPriority(&mut raw, flags, 0))? };
        Ok(GpuStream {
            gpu: Arc::clone(gpu),
            raw: Handle(raw),
            owned: true,
        })
    }

    /// A stream that somebody else made and will destroy.
    ///
    /// # Safety
    /// `raw` is a stream of `gpu`'s primary context and outlives the result.
    pub(crate) unsafe fn from_raw(gpu: &Arc<Gpu>, raw: sys::CUstream) -> GpuStream {
        GpuStream {
            gpu: Arc::clone(gpu),
            raw: Handle(raw),
            owned: false,
        }
    }

    /// Waits on the host until all work given to the stream so far is done.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.gpu.make_current()?;
        // SAFETY: the stream is alive.
        unsafe { cu!(cuStreamSynchronize(self.raw.0)) }
    }

    /// Whether work that the stream is given goes to a graph.
    pub(crate) fn is_capturing(&self) -> Result<bool, DriverError> {
        let _current = self.gpu.make_current()?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive; `status` is a valid place for one status.
        unsafe { cu!(cuStreamIsCapturing(self.raw.0, &mut status))? };
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// An event that completes when all work given to the stream so far has.
    pub(crate) fn record(&self, timing: bool) -> Result<GpuEvent, DriverError> {
        let _current = self.gpu.make_current()?;
        let event = GpuEvent::new(&self.gpu, timing)?;
        // SAFETY: stream and event are alive and of one context.
        unsafe { cu!(cuEventRecord(event.raw.0, self.raw.0))? };
        Ok(event)
    }

    /// Makes work given to the stream from now on wait for `event`; the host does not wait.
    pub(crate) fn wait(&self, event: &GpuEvent) -> Result<(), DriverError> {
        let _current = self.gpu.make_current()?;
        // SAFETY: stream and event are alive; the driver allows them to be of different contexts.
        unsafe { cu!(cuStreamWaitEvent(self.raw.0, event.raw.0, 0)) }
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        if let (true, Ok(_current)) = (self.owned, self.gpu.make_current()) {
            // SAFETY: the handle is ours and used nowhere else any more. The driver lets work that was
            // given to the stream finish.
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
    fn new(gpu: &Arc<Gpu>, timing: bool) -> Result<GpuEvent, DriverError> {
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
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.gpu.make_current()?;
        // SAFETY: the event is alive.
        unsafe { cu!(cuEventSynchronize(self.raw.0)) }
    }

    /// Device time between two recorded events; waits on the host for both.
    pub(crate) fn since(&self, start: &GpuEvent) -> Result<Duration, DriverError> {
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
        if let Ok(_current) = self.gpu.make_current() {
            // SAFETY: the handle is ours; the driver keeps a pending event's state until it completes.
            unsafe {
                sys::cuEventDestroy_v2(self.raw.0);
            }
        }
    }
}
