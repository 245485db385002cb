//! Captures and graphs.

use std::ffi::c_int;

use crate::outcome::{
    CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, put,
};
use crate::thread;
use crate::work::{Capture, Handle, Work};

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
        if capture.invalid {
            put(graph, 0)?;
            return Err(CAPTURE_INVALIDATED);
        }
        put(graph, state.add(|state| &mut state.graphs, context, capture.work))
    }

    fn cuStreamIsCapturing(state; stream: Handle, status: *mut c_int) {
        let stream = state.stream_to_use(stream)?;
        put(status, match &state.streams[&stream].capture {
            None => 0,
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
