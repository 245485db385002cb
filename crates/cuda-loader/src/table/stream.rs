//! Streams, events and stream capture.

forward! {
    fn cuStreamCreate(ph_stream: *mut CUstream, flags: c_uint);
    fn cuStreamCreateWithPriority(ph_stream: *mut CUstream, flags: c_uint, priority: c_int);
    fn cuStreamGetPriority(h_stream: CUstream, priority: *mut c_int);
    fn cuStreamGetFlags(h_stream: CUstream, flags: *mut c_uint);
    fn cuStreamGetCtx(h_stream: CUstream, pctx: *mut CUcontext);
    fn cuStreamWaitEvent(h_stream: CUstream, h_event: CUevent, flags: c_uint);
    fn cuStreamAddCallback(h_stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void, flags: c_uint);
    fn cuStreamBeginCapture_v2(h_stream: CUstream, mode: CUstreamCaptureMode);
    fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
    fn cuStreamEndCapture(h_stream: CUstream, ph_graph: *mut CUgraph);
    fn cuStreamIsCapturing(h_stream: CUstream, capture_status: *mut CUstreamCaptureStatus);
    fn cuStreamGetCaptureInfo(h_stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut cuuint64_t);
    fn cuStreamGetCaptureInfo_v2(h_stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut cuuint64_t, graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode, num_dependencies_out: *mut usize);
    fn cuStreamUpdateCaptureDependencies(h_stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize, flags: c_uint);
    fn cuStreamAttachMemAsync(h_stream: CUstream, dptr: CUdeviceptr, length: usize, flags: c_uint);
    fn cuStreamQuery(h_stream: CUstream);
    fn cuStreamSynchronize(h_stream: CUstream);
    fn cuStreamDestroy_v2(h_stream: CUstream);
    fn cuStreamCopyAttributes(dst: CUstream, src: CUstream);
    fn cuStreamGetAttribute(h_stream: CUstream, attr: CUstreamAttrID, value_out: *mut CUstreamAttrValue);
    fn cuStreamSetAttribute(h_stream: CUstream, attr: CUstreamAttrID, value: *const CUstreamAttrValue);
    fn cuEventCreate(ph_event: *mut CUevent, flags: c_uint);
    fn cuEventRecord(h_event: CUevent, h_stream: CUstream);
    fn cuEventRecordWithFlags(h_event: CUevent, h_stream: CUstream, flags: c_uint);
    fn cuEventQuery(h_event: CUevent);
    fn cuEventSynchronize(h_event: CUevent);
    fn cuEventDestroy_v2(h_event: CUevent);
    fn cuEventElapsedTime(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
    fn cuStreamWaitValue32(stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint);
    fn cuStreamWaitValue64(stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint);
    fn cuStreamWriteValue32(stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint);
    fn cuStreamWriteValue64(stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint);
    fn cuStreamBatchMemOp(stream: CUstream, count: c_uint, param_array: *mut CUstreamBatchMemOpParams, flags: c_uint);
}
