//! The readers of a buffer, and the waits for them.

use std::sync::Arc;

use super::GpuBuffer;
use crate::device::gpu::stream::{GpuEvent, GpuStream, StreamKey};
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, OnceLock, lock, unlocked};

/// The largest number of streams whose reads are recorded. Beyond it, the home stream waits for the oldest
/// read, which is most likely complete.
const MOST: usize = 64;

/// The last read by a stream, which may have been destroyed.
pub(super) struct Read {
    stream: StreamKey,
    done: GpuEvent,
}

impl GpuBuffer {
    /// Orders later work of `stream` after the write of this buffer.
    ///
    /// # Errors
    /// [`Error::OtherStreamInCapture`] if that work goes to a graph, and the stream has not read the buffer
    /// before; [`Error::InCapture`] if the home stream's work goes to a graph.
    pub(crate) fn before_read(&self, stream: &Arc<GpuStream>) -> Result<()> {
        if stream.is(&self.home) {
            return Ok(());
        }
        if stream.is_capturing()? {
            return match self.reads().iter().any(|read| read.stream == stream.key()) {
                true => Ok(()),
                false => Err(Error::OtherStreamInCapture),
            };
        }
        let record = || {
            self.home
                .must_not_capture("let another stream read its tensors")?;
            self.home.record(false)
        };
        if self.is_lent() {
            return stream.wait(&record()?);
        }
        let event = match self.written.get() {
            Some(event) => event,
            // Two threads may both record an event; either event is after the write.
            None => {
                let event = record()?;
                self.written.get_or_init(|| event)
            }
        };
        stream.wait(event)
    }

    /// Records that `stream` reads the buffer up to this point. The buffer is not freed before.
    pub(crate) fn after_read(&self, stream: &Arc<GpuStream>) -> Result<()> {
        if stream.is(&self.home) {
            return Ok(());
        }
        match stream.is_capturing() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // A read that cannot be recorded must be waited for.
            Err(_) => return stream.finish(),
        }
        // The event is recorded under the lock, so that the later of two threads' events is kept.
        let mut reads = self.reads();
        let Ok(done) = stream.record(false) else {
            // Without an event, only waiting keeps the buffer alive long enough.
            return stream.finish();
        };
        match reads.iter_mut().find(|read| read.stream == stream.key()) {
            Some(read) => read.done = done,
            None => reads.push(Read {
                stream: stream.key(),
                done,
            }),
        }
        if reads.len() > MOST && matches!(self.home.is_capturing(), Ok(false)) {
            let first = reads.remove(0);
            self.home
                .wait(&first.done)
                .or_else(|_| first.done.synchronize())?;
        }
        Ok(())
    }

    /// Makes the home stream wait for the reads of `stream`, which is not in capture, up to this point.
    pub(crate) fn wait_for_reads_of(&self, stream: &GpuStream) {
        let waited = match stream.record(false) {
            Ok(done) => self.home.wait(&done).or_else(|_| done.synchronize()),
            Err(_) => stream.finish(),
        };
        // If waiting fails, the context is lost.
        drop(waited);
    }

    /// Drops the record of the reads of `stream`. The caller keeps the buffer until the
    /// [wait](Self::wait_for_reads_of) for them. This avoids a cycle: a buffer that a stream keeps must not
    /// keep the stream.
    pub(crate) fn forget_reads_of(&self, stream: &GpuStream) {
        self.reads().retain(|read| read.stream != stream.key());
    }

    /// Call this before the home stream overwrites a buffer that other streams could read until now.
    pub(crate) fn before_rewrite(&mut self) -> Result<()> {
        self.written = OnceLock::new();
        settle(&self.home, unlocked(&mut self.reads))
    }

    fn reads(&self) -> MutexGuard<'_, Vec<Read>> {
        lock(&self.reads)
    }
}

/// Makes `home` wait for every read, so that it may overwrite or free the buffer.
pub(super) fn settle(home: &GpuStream, reads: &mut Vec<Read>) -> Result<()> {
    while let Some(read) = reads.pop() {
        if home.wait(&read.done).is_err()
            && let Err(error) = read.done.synchronize()
        {
            reads.push(read);
            return Err(error);
        }
    }
    Ok(())
}
