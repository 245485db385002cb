//! Streams and events.

use std::ffi::c_int;

use crate::outcome::{CAPTURE_ISOLATION, CAPTURED_EVENT, INVALID_HANDLE, put};
use crate::work::{Event, Handle, Stream, Work};

driver! {
    fn cuStreamCreateWithPriority(state; stream: *mut Handle, _flags: u32, _priority: c_int) {
        let context = state.current()?;
        put(stream, state.add(|state| &mut state.streams, context, Stream::default()))
    }

    fn cuStreamDestroy_v2(state; stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        let known = state.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        known.destroyed = true;
        known.capture = None;
        if known.queue.is_empty() {
            state.streams.remove(&stream);
        }
        Ok(())
    }

    fn cuStreamGetId(state; stream: Handle, id: *mut u64) {
        if stream < 2 {
            // The legacy default stream synchronises with streams in capture.
            state.refuse_in_captures(false)?;
        }
        // Stream handles are unique.
        put(id, state.stream_outside_of_captures(stream)? as u64)
    }

    fn cuStreamSynchronize(state; stream: Handle) {
        let stream = state.stream_outside_of_captures(stream)?;
        state.finish_stream(stream);
        Ok(())
    }

    fn cuStreamWaitEvent(state; stream: Handle, event: Handle, _flags: u32) {
        let stream = state.stream_to_use(stream)?;
        let event = state.events.get(&event).ok_or(INVALID_HANDLE)?;
        if let Some((of, position)) = event.recorded.filter(|_| event.captured) {
            return state.wait_in_capture(stream, of, position);
        }
        let known = state.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        if let Some(joined) = &known.joined {
            let origin = joined.origin;
            state.streams.get_mut(&origin).ok_or(INVALID_HANDLE)?.invalidate();
            return Err(CAPTURE_ISOLATION);
        }
        match (&mut known.capture, event.recorded) {
            // Work in a graph must not wait for work outside of the graph.
            (Some(capture), _) => {
                capture.invalid = true;
                Err(CAPTURE_ISOLATION)
            }
            (None, Some((stream_of, position))) => {
                state.give(stream, Work::Wait { stream: stream_of, position })
            }
            _ => Ok(()),
        }
    }

    fn cuEventCreate(state; event: *mut Handle, _flags: u32) {
        let context = state.current()?;
        put(event, state.add(|state| &mut state.events, context, Event::default()))
    }

    fn cuEventDestroy_v2(state; event: Handle) {
        state.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuEventRecord(state; event: Handle, stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        let of = &state.streams[&stream];
        let event = state.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        if of.context != event.context {
            return Err(INVALID_HANDLE);
        }
        event.captured = of.is_captured();
        event.recorded = Some((stream, of.position()));
        Ok(())
    }

    fn cuEventSynchronize(state; event: Handle) {
        let event = state.events.get(&event).ok_or(INVALID_HANDLE)?;
        match event.recorded {
            _ if event.captured => return Err(CAPTURED_EVENT),
            Some((stream, position)) => state.advance(stream, position),
            None => {}
        }
        Ok(())
    }

    fn cuEventElapsedTime(state; milliseconds: *mut f32, start: Handle, end: Handle) {
        let is_known = |event| state.events.contains_key(event);
        if ![start, end].iter().all(is_known) {
            return Err(INVALID_HANDLE);
        }
        put(milliseconds, 0.5)
    }
}
