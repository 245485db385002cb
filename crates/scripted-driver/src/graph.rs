//! Captures and graphs.

use std::ffi::c_int;

use crate::call::{self, CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, INVALID_VALUE, put};
use crate::queue::{Capture, Work};
use crate::state::Handle;

pub(crate) struct Graph {
    pub(crate) context: u32,
    work: Vec<Work>,
}

pub(crate) struct Executable {
    pub(crate) context: u32,
    work: Vec<Work>,
}

driver! {
    fn cuStreamBeginCapture_v2(state; stream: Handle, mode: c_int) {
        if stream < 2 || !(0..=2).contains(&mode) {
            // The legacy default stream cannot be captured.
            return Err(CAPTURE_UNSUPPORTED);
        }
        let stream = state.stream_to_use(stream)?;
        state.refuse_in_capture(stream)?;
        let thread = call::thread();
        let known = state.streams.get_mut(&stream).ok_or(INVALID_VALUE)?;
        known.capture = Some(Capture { work: Vec::new(), invalid: false, thread });
        Ok(())
    }

    fn cuStreamEndCapture(state; stream: Handle, graph: *mut Handle) {
        let stream = state.stream_to_use(stream)?;
        let handle = state.handle();
        let known = state.streams.get_mut(&stream).ok_or(INVALID_VALUE)?;
        let context = known.context;
        let capture = known.capture.take().ok_or(INVALID_VALUE)?;
        if capture.invalid {
            put(graph, 0)?;
            return Err(CAPTURE_INVALIDATED);
        }
        let work = capture.work;
        state.graphs.insert(handle, Graph { context, work });
        put(graph, handle)
    }

    fn cuGraphInstantiateWithFlags(state; executable: *mut Handle, graph: Handle, _flags: u64) {
        let handle = state.handle();
        let Some(known) = state.graphs.get(&graph) else {
            return Err(state.stale("graph", graph));
        };
        let made = Executable { context: known.context, work: known.work.clone() };
        state.executables.insert(handle, made);
        put(executable, handle)
    }

    fn cuGraphDestroy(state; graph: Handle) {
        match state.graphs.remove(&graph) {
            Some(_) => Ok(()),
            None => Err(state.stale("graph", graph)),
        }
    }

    fn cuGraphLaunch(state; executable: Handle, stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        let Some(known) = state.executables.get(&executable) else {
            return Err(state.stale("graph's instance", executable));
        };
        let work = known.work.clone();
        for step in work {
            if let Work::Launch(launch) = &step {
                state.log_launch(stream, launch);
            }
            state.give(stream, step)?;
        }
        Ok(())
    }

    fn cuGraphExecDestroy(state; executable: Handle) {
        match state.executables.remove(&executable) {
            Some(_) => Ok(()),
            None => Err(state.stale("graph's instance", executable)),
        }
    }
}
