//! Runs recorded as CUDA graphs.

use std::fmt;
use std::sync::Arc;

use super::{Launches, Runs};
use crate::device::raw::RawPointer;
use crate::device::{GpuGraph, Stream};
use crate::error::Result;
use crate::program::{Program, other_streams};

/// One run of [`Launches`] at fixed addresses, as a CUDA graph on one stream. A launch costs the host one
/// call, for any number of kernels. Made by [`Launches::record`].
pub struct Recorded {
    graph: GpuGraph,
    /// Keeps the kernels loaded, and the parameters of a model.
    _program: Option<Arc<Program>>,
}

impl Launches {
    /// Records one run on `stream` with these addresses, without running it. The arguments are those of
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) if the device is not a GPU; the errors of
    /// [`run`](Self::run), and those of the driver.
    ///
    /// # Safety
    /// The conditions of [`run`](Self::run) hold for each launch of the result, instead of for this call.
    pub unsafe fn record(
        &self,
        stream: &Stream,
        inputs: &[RawPointer],
        parameters: &[RawPointer],
        outputs: &[RawPointer],
        workspace: RawPointer,
    ) -> Result<Recorded> {
        let others = other_streams(stream)?;
        let graph = stream.capture(|recorder| {
            let recording = Some((stream, &*others));
            // SAFETY: the caller's promise.
            unsafe {
                self.queue(
                    recorder,
                    recording,
                    [inputs, parameters],
                    outputs,
                    workspace,
                )
            }
        })?;
        let program = match &self.runs {
            Runs::Kernels(program) => Some(Arc::clone(program)),
            Runs::Backend(_) => None,
        };
        Ok(Recorded {
            graph,
            _program: program,
        })
    }
}

impl Recorded {
    /// Queues the run on its stream.
    ///
    /// # Errors
    /// Errors of the driver.
    ///
    /// # Safety
    /// The conditions of [`Launches::run`] hold for the addresses of the recording.
    pub unsafe fn launch(&mut self) -> Result<()> {
        self.graph.launch()
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").finish_non_exhaustive()
    }
}
