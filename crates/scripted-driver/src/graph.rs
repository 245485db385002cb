//! Captures and graphs.

use std::ffi::c_int;

use crate::outcome::{
    CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, INVALID_HANDLE,
    INVALID_VALUE, Outcome, put,
};
use crate::state::State;
use crate::thread;
use crate::work::{Capture, Handle, Joined, Work};

driver! {
    fn cuStreamBeginCapture_v2(state; stream: Handle, mode: c_int) {
        if stream < 2 || !(0..=2).contains(&mode) {
            // The legacy default stream cannot be captured.
            return Err(CAPTURE_UNSUPPORTED);
        }
        let stream = state.stream_outside_of_captures(stream)?;
        let known = state.streams.get_mut(&stream).ok_or(INVALID_VALUE)?;
        let thread = thread::current();
        known.capture = Some(Capture { work: Vec::new(), invalid: false, thread });
        Ok(())
    }

    fn cuStreamEndCapture(state; stream: Handle, graph: *mut Handle) {
        let stream = state.stream_to_use(stream)?;
        let known = state.streams.get_mut(&stream).ok_or(INVALID_VALUE)?;
        let context = known.context;
        let capture = known.capture.take().ok_or(INVALID_VALUE)?;
        let is_joined = state.end_joined(stream);
        if !capture.invalid && !is_joined {
            put(graph, 0)?;
            return Err(CAPTURE_UNJOINED);
        }
        if capture.invalid {
            put(graph, 0)?;
            return Err(CAPTURE_INVALIDATED);
        }
        put(graph, state.add(|state| &mut state.graphs, context, capture.work))
    }

    fn cuStreamIsCapturing(state; stream: Handle, status: *mut c_int) {
        let stream = state.stream_to_use(stream)?;
        let of = &state.streams[&stream];
        put(status, match &of.capture {
            None => c_int::from(of.joined.is_some()),
            Some(capture) if capture.invalid => 2,
            Some(_) => 1,
        })
    }

    fn cuGraphInstantiateWithFlags(state; executable: *mut Handle, graph: Handle, _flags: u64) {
        let known = state.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        let (context, work) = (known.context, known.to_vec());
        put(executable, state.add(|state| &mut state.executables, context, work))
    }

    fn cuGraphDestroy(state; graph: Handle) {
        state.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuGraphLaunch(state; executable: Handle, stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        let known = state.executables.get(&executable).ok_or(INVALID_HANDLE)?;
        let work = known.to_vec();
        for step in work {
            if let Work::Launch(launch) = &step {
                state.log_launch(stream, launch);
            }
            state.give(stream, step)?;
        }
        Ok(())
    }

    fn cuGraphExecDestroy(state; executable: Handle) {
        state.executables.remove(&executable).map(drop).ok_or(INVALID_HANDLE)
    }
}

impl State {
    /// Makes a stream wait for a captured event of the stream `of` at this position. A stream that is in no
    /// capture joins that of the event.
    pub(crate) fn wait_in_capture(&mut self, stream: Handle, of: Handle, position: u64) -> Outcome {
        let recorded = self.streams.get(&of).ok_or(INVALID_HANDLE)?;
        let origin = recorded.joined.as_ref().map_or(of, |joined| joined.origin);
        let is_open = |known: &Self| {
            known
                .streams
                .get(&origin)
                .is_some_and(|of| of.capture.is_some())
        };
        if !is_open(self) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let known = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        match &known.joined {
            _ if stream == origin => {}
            Some(joined) if joined.origin == origin => {}
            None if known.capture.is_none() => {
                known.joined = Some(Joined {
                    origin,
                    given: 0,
                    awaited: 0,
                });
            }
            // Two captures cannot be merged.
            _ => {
                known.invalidate();
                return Err(CAPTURE_UNMATCHED);
            }
        }
        // Work that a joined stream waits for is awaited by the origin once that waits for this stream.
        let after = self.streams[&stream].position();
        if let Some(joined) = self.streams.get_mut(&of).and_then(|of| of.joined.as_mut()) {
            let is_origin = stream == origin;
            if is_origin || after > 0 || of != stream {
                joined.awaited = joined.awaited.max(position);
            }
        }
        Ok(())
    }

    /// Ends the part of other streams in a capture. Returns whether something waits for all their work.
    fn end_joined(&mut self, origin: Handle) -> bool {
        let mut are_awaited = true;
        for stream in self.streams.values_mut() {
            if let Some(joined) = stream.joined.take_if(|joined| joined.origin == origin) {
                are_awaited &= joined.awaited >= joined.given;
            }
        }
        are_awaited
    }
}
