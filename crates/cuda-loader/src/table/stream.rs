//! Streams, events and stream capture.

forward! {
    fn cuStreamCreate(ph_stream: *mut CUstream, flags: c_uint);
    fn cuStreamCreateWithPriority(ph_stream: *mut CUstream, flags: c_uint, priority: c_int);
    fn cuStreamGetPriority(h_stream: CUstream, priority: *mut c_int);
    fn cuStreamGetFlags(h_stream: CUstream, flags: *mut c_uint);
    fn cuStreamWaitEvent(h_stream: CUstream, h_event: CUevent, flags: c_uint);
    fn cuStreamBeginCapture_v2(h_stream: CUstream, mode: CUstreamCaptureMode);
    fn cuStreamEndCapture(h_stream: CUstream, ph_graph: *mut CUgraph);
    fn cuStreamIsCapturing(h_stream: CUstream, capture_status: *mut CUstreamCaptureStatus);
    fn cuStreamQuery(h_stream: CUstream);
    fn cuStreamSynchronize(h_stream: CUstream);
    fn cuStreamDestroy_v2(h_stream: CUstream);
    fn cuEventCreate(ph_event: *mut CUevent, flags: c_uint);
    fn cuEventRecord(h_event: CUevent, h_stream: CUstream);
    fn cuEventQuery(h_event: CUevent);
    fn cuEventSynchronize(h_event: CUevent);
    fn cuEventDestroy_v2(h_event: CUevent);
    fn cuEventElapsedTime(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
    fn cuStreamWaitValue32(stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint);
}
