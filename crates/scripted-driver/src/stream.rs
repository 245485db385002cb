//! Streams and events.

use std::ffi::c_int;

use crate::call::{
    self, CAPTURE_ISOLATION, CAPTURE_UNSUPPORTED, CAPTURED_EVENT, INVALID_CONTEXT, INVALID_HANDLE,
    NOT_READY, Outcome, put,
};
use crate::queue::{Capture, Event, Stream, Work};
use crate::state::{Handle, State};

impl State {
    /// The stream that a handle means here. The default streams are there without being made.
    pub(crate) fn stream_to_use(&mut self, handle: Handle) -> Outcome<Handle> {
        let current = self.current()?;
        let handle = match handle {
            0 | 1 => usize::MAX - 2 * current as usize,
            2 => 1 << 63 | (call::thread() as usize) << 20 | current as usize,
            _ => handle,
        };
        let is_default = handle >> 63 == 1;
        if is_default {
            self.streams.entry(handle).or_insert(Stream::new(current));
        }
        match self.streams.get(&handle) {
            Some(stream) if stream.destroyed => Err(self.stale("stream", handle)),
            Some(stream) if stream.context != current => Err(INVALID_CONTEXT),
            Some(_) => Ok(handle),
            None => Err(self.stale("stream", handle)),
        }
    }

    fn event(&mut self, handle: Handle) -> Outcome<Event> {
        let known = self.events.get(&handle).copied();
        known.ok_or_else(|| self.stale("event", handle))
    }

    /// Fails as calls do that no graph can hold.
    pub(crate) fn refuse_in_capture(&mut self, stream: Handle) -> Outcome {
        match self.streams.get_mut(&stream) {
            Some(stream) if stream.capture.is_some() => Err(stream.invalidate()),
            _ => Ok(()),
        }
    }

    /// Fails as calls do that a thread with a capture must not make.
    pub(crate) fn refuse_in_this_threads_capture(&mut self) -> Outcome {
        let current = self.current()?;
        let is_own = |stream: &&mut Stream| {
            let capture = stream.capture.as_ref();
            let in_thread = |capture: &Capture| capture.thread == call::thread();
            stream.context == current && capture.is_some_and(in_thread)
        };
        match self.streams.values_mut().find(is_own) {
            Some(stream) => Err(stream.invalidate()),
            None => Ok(()),
        }
    }
}

driver! {
    fn cuStreamCreateWithPriority(state; stream: *mut Handle, _flags: u32, _priority: c_int) {
        let (context, handle) = (state.current()?, state.handle());
        state.streams.insert(handle, Stream::new(context));
        put(stream, handle)
    }

    fn cuStreamDestroy_v2(state; stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        let known = state.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        known.destroyed = true;
        known.capture = None;
        if known.has_done(known.position()) {
            state.streams.remove(&stream);
        }
        Ok(())
    }

    fn cuStreamGetId(state; stream: Handle, id: *mut u64) {
        if stream < 2 {
            // The legacy default stream waits for those that are in capture.
            state.refuse_in_this_threads_capture()?;
        }
        let stream = state.stream_to_use(stream)?;
        state.refuse_in_capture(stream)?;
        // No handle is given twice.
        put(id, stream as u64)
    }

    fn cuStreamSynchronize(state; stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        state.refuse_in_capture(stream)?;
        state.finish_stream(stream);
        Ok(())
    }

    fn cuStreamQuery(state; stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        state.refuse_in_capture(stream)?;
        let known = &state.streams[&stream];
        if known.has_done(known.position()) { Ok(()) } else { Err(NOT_READY) }
    }

    fn cuStreamIsCapturing(state; stream: Handle, status: *mut c_int) {
        let stream = state.stream_to_use(stream)?;
        put(status, match &state.streams[&stream].capture {
            None => 0,
            Some(capture) if capture.invalid => 2,
            Some(_) => 1,
        })
    }

    fn cuStreamWaitEvent(state; stream: Handle, event: Handle, _flags: u32) {
        let stream = state.stream_to_use(stream)?;
        let event = state.event(event)?;
        let known = state.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        match (&mut known.capture, event.recorded) {
            // Nothing of what a graph waits for may be outside of it.
            (Some(capture), _) if !event.captured => {
                capture.invalid = true;
                Err(CAPTURE_ISOLATION)
            }
            (None, _) if event.captured => Err(CAPTURE_UNSUPPORTED),
            (None, Some((stream_of, position))) => {
                state.give(stream, Work::Wait { stream: stream_of, position })
            }
            _ => Ok(()),
        }
    }

    fn cuEventCreate(state; event: *mut Handle, _flags: u32) {
        let (context, handle) = (state.current()?, state.handle());
        let new = Event { context, recorded: None, captured: false };
        state.events.insert(handle, new);
        put(event, handle)
    }

    fn cuEventDestroy_v2(state; event: Handle) {
        state.event(event)?;
        state.events.remove(&event);
        Ok(())
    }

    fn cuEventRecord(state; event: Handle, stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        let mut known = state.event(event)?;
        let of = &state.streams[&stream];
        if of.context != known.context {
            return Err(INVALID_HANDLE);
        }
        known.captured = of.capture.is_some();
        known.recorded = Some((stream, of.position()));
        state.events.insert(event, known);
        Ok(())
    }

    fn cuEventQuery(state; event: Handle) {
        let event = state.event(event)?;
        if event.captured {
            return Err(CAPTURED_EVENT);
        }
        let Some((stream, position)) = event.recorded else {
            return Ok(());
        };
        let stream = state.streams.get(&stream);
        if stream.is_none_or(|stream| stream.has_done(position)) { Ok(()) } else { Err(NOT_READY) }
    }

    fn cuEventSynchronize(state; event: Handle) {
        let event = state.event(event)?;
        if event.captured {
            return Err(CAPTURED_EVENT);
        }
        if let Some((stream, position)) = event.recorded {
            state.advance(stream, position);
        }
        Ok(())
    }

    fn cuEventElapsedTime(state; milliseconds: *mut f32, start: Handle, end: Handle) {
        state.event(start)?;
        state.event(end)?;
        put(milliseconds, 0.5)
    }
}
