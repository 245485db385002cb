//! CUDA graphs: work that is captured once and launched as a whole.

use std::sync::Arc;

use cust::sys;

use super::driver::{Handle, cu};
use super::stream::GpuStream;
use crate::error::Result;

/// An instantiated CUDA graph, and the stream that it is launched on.
///
/// The graph does not own its memory. Its holder keeps the memory alive, and ensures that the graph's inputs
/// are written in the order of its stream.
pub(crate) struct GpuGraph {
    stream: Arc<GpuStream>,
    executable: Handle<sys::CUgraphExec_st>,
}

impl GpuGraph {
    /// Captures the work that `work` queues on the stream passed to it, without running it. That stream is
    /// private, so other threads' work on `stream` does not become part of the graph.
    pub(crate) fn capture(
        stream: &Arc<GpuStream>,
        work: impl FnOnce(Arc<GpuStream>) -> Result<()>,
    ) -> Result<GpuGraph> {
        let _current = stream.gpu.make_current()?;
        let recorder = Arc::new(GpuStream::new(&stream.gpu)?);
        let raw = recorder.raw()?;
        // In this mode, other threads may make calls that a capture forbids.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive.
        unsafe { cu!(cuStreamBeginCapture_v2(raw, mode))? };
        let worked = work(Arc::clone(&recorder));
        // SAFETY: as above; `graph` is a valid place for one handle. The capture is also ended if the work
        // failed.
        let ended = unsafe { cu!(cuStreamEndCapture(raw, &mut graph)) };
        let instantiated = worked.and_then(|()| {
            ended?;
            let mut executable = std::ptr::null_mut();
            // SAFETY: the capture succeeded, so `graph` is a graph; `executable` is a valid place for one
            // handle.
            unsafe { cu!(cuGraphInstantiateWithFlags(&mut executable, graph, 0))? };
            Ok(executable)
        });
        if !graph.is_null() {
            // SAFETY: nobody else has this handle, and the instantiated graph does not need it.
            unsafe { sys::cuGraphDestroy(graph) };
        }
        Ok(GpuGraph {
            stream: Arc::clone(stream),
            executable: Handle(instantiated?),
        })
    }

    /// Queues the work on the graph's stream.
    pub(crate) fn launch(&mut self) -> Result<()> {
        let _current = self.stream.gpu.make_current()?;
        // SAFETY: both handles are alive.
        Ok(unsafe { cu!(cuGraphLaunch(self.executable.0, self.stream.raw()?)) }?)
    }
}

impl Drop for GpuGraph {
    fn drop(&mut self) {
        let executable = self.executable;
        // Waiting for the last launch would invalidate a later capture that the stream is in.
        self.stream.outside_of_captures(move |stream| {
            let Handle(executable) = { executable };
            let _ = stream.finish();
            // SAFETY: the handle is ours and no longer used elsewhere; the context is current.
            unsafe { sys::cuGraphExecDestroy(executable) };
        });
    }
}
