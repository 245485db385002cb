//! Helpers for tests on devices: tensors and arrays of one value, models of one layer, and objects of other
//! libraries.

use std::any::Any;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use convfuse::graph::presets::KernelBench79;
use convfuse::graph::{Chain, Layer};
use convfuse::raw::RawPointer;
use convfuse::{
    DType, Device, DriverError, Error, Model, Options, PinnedArray, Plan, Result, Stream, Tensor,
    data,
};
use cust::sys::{self, CUresult};

use crate::driver::{Driver, Mode, in_child, test_of};

/// The number of elements of a test's tensors.
pub(crate) const LEN: usize = 1000;

/// Devices of two kinds. Without pools the host waits while memory is freed.
pub(crate) const WITH_POOLS: u32 = 0;
pub(crate) const WITHOUT_POOLS: u32 = 2;

/// Runs a test in a child that has the driver, on a device that does its work late, with two streams.
pub(crate) fn late<F: Fn(Driver, Device, [Stream; 2])>(body: F) {
    late_on(test_of::<F>(), &[WITH_POOLS], body);
}

/// Runs a test on devices of both kinds.
pub(crate) fn late_on_both<F: Fn(Driver, Device, [Stream; 2])>(body: F) {
    late_on(test_of::<F>(), &[WITH_POOLS, WITHOUT_POOLS], body);
}

fn late_on(test: &str, ordinals: &[u32], body: impl Fn(Driver, Device, [Stream; 2])) {
    let body = |script: Driver| {
        for &ordinal in ordinals {
            let device = Device::gpu(ordinal).expect("a scripted device");
            script.begin(Mode::Late);
            let streams = [(); 2].map(|()| device.stream().unwrap());
            body(script, device, streams);
            script.expect_no_violations();
        }
    };
    in_child(test, body);
}

/// An array as the source of a queued copy.
pub(crate) fn array(device: &Device, value: f32) -> PinnedArray<f32> {
    let mut array = PinnedArray::zeros(device, &[LEN]).unwrap();
    array.view_mut().unwrap().fill(value);
    array
}

/// A tensor of one value; its write is queued.
pub(crate) fn tensor(stream: &Stream, value: &PinnedArray<f32>) -> Tensor {
    Tensor::from_pinned(stream, value).unwrap()
}

/// Zeros, in memory from the stream's pool.
pub(crate) fn zeros(stream: &Stream) -> Tensor {
    Tensor::zeros(stream, &[LEN], DType::F32).unwrap()
}

/// Copies a tensor out on another stream.
pub(crate) fn read(x: &Tensor, stream: &Stream, back: &mut PinnedArray<f32>) {
    x.on(stream).unwrap().copy_to_pinned(back).unwrap();
}

/// Waits for the copy, and returns whether all elements are `value`.
pub(crate) fn holds(array: &PinnedArray<f32>, value: f32) -> bool {
    let values = array.view().unwrap();
    values.iter().all(|&element| element == value)
}

/// Returns whether all elements of a tensor are `value`.
pub(crate) fn has(tensor: &Tensor, value: f32) -> bool {
    let values = tensor.to_array::<f32>().unwrap();
    values.iter().all(|&element| element == value)
}

/// A model of one layer for this many channels, with parameters on the stream.
pub(crate) fn model_of(stream: &Stream, channels: usize, layer: Layer) -> Model {
    let chain = Chain::new(channels, [layer]).unwrap();
    Model::init(stream, &chain, 1).unwrap()
}

/// The input shape of a preset for which its kernels for any shape run.
pub(crate) const SHAPE_79: [usize; 5] = [1, 3, 5, 6, 7];

pub(crate) fn model_79(stream: &Stream) -> Model {
    Model::init(stream, KernelBench79::default().chain().unwrap(), 7).unwrap()
}

/// A tensor of pseudo-random values.
pub(crate) fn input(stream: &Stream, shape: &[usize]) -> Tensor {
    Tensor::from_array(stream, &data::fill(1, shape)).unwrap()
}

/// A plan on a stream, with its input and output.
pub(crate) fn planned(model: &Model, stream: &Stream, shape: &[usize]) -> (Plan, Tensor, Tensor) {
    let plan = model.plan(stream, shape, &Options::default()).unwrap();
    let (x, y) = (input(stream, shape), plan.output().unwrap());
    (plan, x, y)
}

/// The outcome of a driver call that a test makes itself.
pub(crate) fn called(call: &'static str, result: CUresult) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(DriverError::new(call, result as u32, format!("{result:?}")).into())
}

/// The context of a device, current during this guard's life, for driver calls that a test makes itself.
pub(crate) struct Current(i32);

impl Current {
    pub(crate) fn of(device: &Device) -> Result<Current> {
        let (ordinal, mut context) = (device.ordinal().expect("a GPU") as i32, null_mut());
        // SAFETY: `context` is a valid place for one handle.
        let retained = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, ordinal) };
        called("cuDevicePrimaryCtxRetain", retained)?;
        // SAFETY: the context was retained, and is not released before it is popped.
        let pushed = unsafe { sys::cuCtxPushCurrent_v2(context) };
        called("cuCtxPushCurrent", pushed).inspect_err(|_| {
            // SAFETY: the context was retained above.
            unsafe { sys::cuDevicePrimaryCtxRelease_v2(ordinal) };
        })?;
        Ok(Current(ordinal))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = null_mut();
        // SAFETY: `of` pushed and retained a context.
        unsafe {
            sys::cuCtxPopCurrent_v2(&mut popped);
            sys::cuDevicePrimaryCtxRelease_v2(self.0);
        }
    }
}

/// Runs `work` while a stream is in capture, using the driver's own calls.
pub(crate) fn captured(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let _current = Current::of(stream.device())?;
    let (raw, mut graph) = (stream.as_raw()?.cast(), null_mut());
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is alive.
    called("cuStreamBeginCapture", unsafe {
        sys::cuStreamBeginCapture_v2(raw, mode)
    })?;
    let done = work();
    // SAFETY: as above; `graph` is a place for one handle, which nobody else has.
    let ended = unsafe { sys::cuStreamEndCapture(raw, &mut graph) };
    if !graph.is_null() {
        // SAFETY: `graph` is a valid graph.
        unsafe { sys::cuGraphDestroy(graph) };
    }
    done.and(called("cuStreamEndCapture", ended))
}

/// [`captured`] for work that cannot fail in a successful capture.
pub(crate) fn in_capture(stream: &Stream, work: impl FnOnce()) {
    captured(stream, || {
        work();
        Ok(())
    })
    .unwrap();
}

/// Allocates memory for [`LEN`] floats that this library does not know.
pub(crate) fn foreign(device: &Device) -> RawPointer {
    allocate(device, LEN * 4)
}

/// Allocates this number of bytes that this library does not know.
pub(crate) fn allocate(device: &Device, bytes: usize) -> RawPointer {
    let _current = Current::of(device).unwrap();
    let mut address = 0;
    // SAFETY: `address` is a valid place for one address.
    let allocated = unsafe { sys::cuMemAlloc_v2(&mut address, bytes) };
    called("cuMemAlloc", allocated).unwrap();
    with_exposed_provenance_mut(address as usize)
}

/// A tensor over such memory, which drops `owner` with itself.
pub(crate) fn lent(
    stream: &Stream,
    pointer: RawPointer,
    shape: &[usize],
    owner: Box<dyn Any + Send + Sync>,
) -> Result<Tensor> {
    // SAFETY: the memory has as many floats, stays to the end of the process, and is written only in the
    // stream's order.
    unsafe { Tensor::from_raw_parts(stream, pointer, shape, None, DType::F32, owner) }
}

pub(crate) fn over(stream: &Stream, pointer: RawPointer) -> Tensor {
    lent(stream, pointer, &[LEN], Box::new(())).unwrap()
}

/// Checks that a result is the error for an operation that a capture does not allow.
pub(crate) fn is_in_capture<T>(result: Result<T>) {
    let error = result.err();
    assert!(matches!(error, Some(Error::InCapture { .. })), "{error:?}");
}

/// The default stream of the calling thread (2), or the legacy default stream (1).
pub(crate) fn default_stream(device: &Device, handle: usize) -> Stream {
    // SAFETY: the stream exists as long as the process.
    unsafe { Stream::from_raw(device, std::ptr::without_provenance_mut(handle)) }.unwrap()
}
