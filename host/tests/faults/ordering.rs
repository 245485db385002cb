//! Work is done no sooner than it is waited for, and then only what comes before: what lacks an order shows.
//!
//! Each test holds one rule of `host/src/device/gpu/memory.rs`, and fails without it. Memory is told apart by
//! what is in it, and the driver itself notes work that uses memory which is not there, or somebody else's.

use std::ptr::null_mut;

use convfuse::raw::DeviceAllocator;
use convfuse::spec::ClampSpec;
use convfuse::{DType, Device, PinnedArray, Stream, Tensor, ops};
use cust::sys::{self, CUresult};
use ndarray::ArrayView1;

use crate::driver::{Script, Work, scripted};

/// Elements of a test's tensors.
pub(crate) const LEN: usize = 1000;

/// Devices of two kinds; without pools memory is given back while the host waits.
pub(crate) const WITH_POOLS: u32 = 0;
pub(crate) const WITHOUT_POOLS: u32 = 2;

/// A device whose work is done late, if this is the child that has the driver.
pub(crate) fn late(test: &str, ordinal: u32) -> Option<(Script, Device)> {
    let script = scripted(test)?;
    let device = Device::gpu(ordinal).expect("a scripted device");
    script.begin(Work::WhenWaitedFor);
    Some((script, device))
}

/// What a copy that is queued reads.
pub(crate) fn array(device: &Device, value: f32) -> PinnedArray<f32> {
    let mut array = PinnedArray::zeros(device, &[LEN]).unwrap();
    array.view_mut().unwrap().fill(value);
    array
}

/// A tensor of one value, whose writing is queued.
pub(crate) fn tensor(stream: &Stream, value: &PinnedArray<f32>) -> Tensor {
    Tensor::from_pinned(stream, value).unwrap()
}

/// Whether all elements that were copied are `value`; waits for the copy.
pub(crate) fn holds(array: &PinnedArray<f32>, value: f32) -> bool {
    array
        .view()
        .unwrap()
        .iter()
        .all(|&element| element == value)
}

fn sum(tensor: &Tensor) -> f32 {
    tensor.to_array::<f32>().unwrap().sum()
}

#[test]
fn another_stream_reads_what_was_written() {
    let Some((script, device)) = late(
        "ordering::another_stream_reads_what_was_written",
        WITH_POOLS,
    ) else {
        return;
    };
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
    let x = tensor(&home, &ones);
    x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
    assert!(holds(&back, 1.0));
    let y = ops::clamp(
        &tensor(&home, &ones).on(&reader).unwrap(),
        &ClampSpec::new(-2.0, 2.0),
    );
    assert_eq!(sum(&y.unwrap()), LEN as f32);
    script.expect_no_violations();
}

/// The tensor is dropped while so many other streams are to read it, and its own stream overwrites what it
/// gets.
fn read_then_overwritten(device: &Device, readers: usize) -> bool {
    let home = device.stream().unwrap();
    let ones = array(device, 1.0);
    let mut backs = vec![];
    backs.resize_with(readers, || array(device, 0.0));
    let x = tensor(&home, &ones);
    for back in &mut backs {
        let reader = device.stream().unwrap();
        x.on(&reader).unwrap().copy_to_pinned(back).unwrap();
    }
    drop(x);
    let overwritten = Tensor::zeros(&home, &[LEN], DType::F32).unwrap();
    assert_eq!(sum(&overwritten), 0.0);
    backs.iter().all(|back| holds(back, 1.0))
}

#[test]
fn memory_is_given_back_after_its_last_reader() {
    let Some((script, device)) = late(
        "ordering::memory_is_given_back_after_its_last_reader",
        WITH_POOLS,
    ) else {
        return;
    };
    assert!(read_then_overwritten(&device, 3));
    script.expect_no_violations();
}

#[test]
fn memory_without_a_pool_is_given_back_after_its_last_reader() {
    let test = "ordering::memory_without_a_pool_is_given_back_after_its_last_reader";
    let Some((script, device)) = late(test, WITHOUT_POOLS) else {
        return;
    };
    assert!(read_then_overwritten(&device, 3));
    script.expect_no_violations();
}

#[test]
fn memory_without_a_pool_is_given_back_after_its_own_streams_work() {
    let test = "ordering::memory_without_a_pool_is_given_back_after_its_own_streams_work";
    let Some((script, device)) = late(test, WITHOUT_POOLS) else {
        return;
    };
    let home = device.stream().unwrap();
    let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
    tensor(&home, &ones).copy_to_pinned(&mut back).unwrap();
    assert!(holds(&back, 1.0));
    script.expect_no_violations();
}

#[test]
fn without_an_event_the_host_waits_for_the_reader() {
    let test = "ordering::without_an_event_the_host_waits_for_the_reader";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    // The events of a run: that `ones` is read, that `x` is written, that it is read, that `back` is written,
    // and so on.
    read_then_overwritten(&device, 1);
    let count = |name: &str| {
        script
            .counts()
            .iter()
            .find(|c| c.0 == name)
            .map_or(0, |c| c.1)
    };
    let (records, waits) = (count("cuEventRecord"), count("cuStreamWaitEvent"));
    assert!(records >= 4 && waits >= 2, "{records} and {waits}");
    // The second record opens the tensor to the reader, which has no other way; nor has the first wait.
    for number in [3, 4] {
        script.begin(Work::WhenWaitedFor);
        script.fail("cuEventRecord", number, 304);
        assert!(read_then_overwritten(&device, 1), "record {number}");
        script.expect_no_violations();
    }
    for number in 2..=waits {
        script.begin(Work::WhenWaitedFor);
        script.fail("cuStreamWaitEvent", number, 304);
        assert!(read_then_overwritten(&device, 1), "wait {number}");
        script.expect_no_violations();
    }
}

#[test]
fn memory_is_overwritten_after_its_last_reader() {
    let Some((script, device)) = late(
        "ordering::memory_is_overwritten_after_its_last_reader",
        WITH_POOLS,
    ) else {
        return;
    };
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
    let mut back = array(&device, 0.0);
    let mut x = tensor(&home, &ones);
    x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
    x.copy_from_pinned(&twos).unwrap();
    home.synchronize().unwrap();
    assert!(holds(&back, 1.0));
    script.expect_no_violations();
}

#[test]
fn what_is_written_anew_is_waited_for_anew() {
    let Some((script, device)) = late(
        "ordering::what_is_written_anew_is_waited_for_anew",
        WITH_POOLS,
    ) else {
        return;
    };
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
    let mut back = array(&device, 0.0);
    let mut x = tensor(&home, &ones);
    x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
    x.copy_from_pinned(&twos).unwrap();
    x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
    assert!(holds(&back, 2.0));
    script.expect_no_violations();
}

#[test]
fn pinned_memory_stays_until_its_copies_are_done() {
    let Some((script, device)) = late(
        "ordering::pinned_memory_stays_until_its_copies_are_done",
        WITH_POOLS,
    ) else {
        return;
    };
    let stream = device.stream().unwrap();
    let x = tensor(&stream, &array(&device, 1.0));
    let mut back = array(&device, 0.0);
    x.copy_to_pinned(&mut back).unwrap();
    drop(back);
    // What is written over an array that a copy still reads would be read instead.
    let mut ones = array(&device, 1.0);
    let x = tensor(&stream, &ones);
    ones.view_mut().unwrap().fill(2.0);
    assert_eq!(sum(&x), LEN as f32);
    script.expect_no_violations();
}

#[test]
fn an_array_has_been_read_when_the_call_returns() {
    let Some((script, device)) = late(
        "ordering::an_array_has_been_read_when_the_call_returns",
        WITH_POOLS,
    ) else {
        return;
    };
    let stream = device.stream().unwrap();
    let _current = Current::of(&device);
    let mut start = null_mut();
    // SAFETY: `start` is a place for one pointer.
    let pinned = unsafe { sys::cuMemHostAlloc(&mut start, LEN * 4, 0) };
    assert_eq!(pinned, CUresult::CUDA_SUCCESS);
    let start: *mut f32 = start.cast();
    // SAFETY: as many floats were allocated.
    unsafe { (0..LEN).for_each(|index| start.add(index).write(1.0)) };
    // SAFETY: they are written, and nobody else uses them.
    let x = Tensor::from_array(&stream, &unsafe { ArrayView1::from_shape_ptr(LEN, start) });
    // SAFETY: as above.
    unsafe { (0..LEN).for_each(|index| start.add(index).write(2.0)) };
    assert_eq!(sum(&x.unwrap()), LEN as f32);
    // Also where the driver says once that it cannot wait.
    script.begin(Work::WhenWaitedFor);
    script.fail("cuStreamSynchronize", 1, 304);
    // SAFETY: as above.
    Tensor::from_array(&stream, &unsafe { ArrayView1::from_shape_ptr(LEN, start) }).unwrap_err();
    // SAFETY: nothing uses the memory any more.
    unsafe { sys::cuMemFreeHost(start.cast()) };
    script.expect_no_violations();
}

#[test]
fn what_a_callers_allocator_gave_goes_back_after_its_last_reader() {
    /// Gives the same memory again as soon as it has it back.
    struct Again(u64);
    // SAFETY: the one piece of memory is large enough, and each test has one tensor at a time.
    unsafe impl DeviceAllocator for Again {
        fn allocate(
            &self,
            _bytes: usize,
            _stream: convfuse::raw::RawStream,
        ) -> Result<convfuse::raw::RawPointer, Box<dyn std::error::Error + Send + Sync>> {
            Ok(std::ptr::with_exposed_provenance_mut(self.0 as usize))
        }

        fn free(&self, _: convfuse::raw::RawPointer, _: usize, _: convfuse::raw::RawStream) {}
    }
    let test = "ordering::what_a_callers_allocator_gave_goes_back_after_its_last_reader";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let mut address = 0;
    {
        let _current = Current::of(&device);
        // SAFETY: a place for one address.
        unsafe { sys::cuMemAlloc_v2(&mut address, LEN * 4) };
    }
    let home = home.with_allocator(std::sync::Arc::new(Again(address)));
    let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
    let x = tensor(&home, &ones);
    x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
    drop(x);
    let overwritten = Tensor::zeros(&home, &[LEN], DType::F32).unwrap();
    assert_eq!(sum(&overwritten), 0.0);
    assert!(holds(&back, 1.0));
    script.expect_no_violations();
}

#[test]
fn memory_of_another_threads_default_stream_goes_back_after_that_streams_work() {
    let test =
        "ordering::memory_of_another_threads_default_stream_goes_back_after_that_streams_work";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let ones = array(&device, 1.0);
    let mut back = array(&device, 0.0);
    let x = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: 2 names the default stream of the thread, which is there for the process.
            let own = unsafe { Stream::from_raw(&device, std::ptr::without_provenance_mut(2)) };
            let x = tensor(&own.unwrap(), &ones);
            x.copy_to_pinned(&mut back).unwrap();
            x
        });
        thread.join().unwrap()
    });
    drop(x);
    script.finish();
    assert!(holds(&back, 1.0));
    script.expect_no_violations();
}

/// The context of a device, current while this lives: for calls of the driver that the test makes itself.
pub(crate) struct Current;

impl Current {
    pub(crate) fn of(device: &Device) -> Current {
        let ordinal = device.ordinal().expect("a GPU");
        let device = cust::device::Device::get_device(ordinal).unwrap();
        let mut context = null_mut();
        // SAFETY: a place for one handle; the library retains the context for the life of the process.
        unsafe {
            sys::cuDevicePrimaryCtxRetain(&mut context, device.as_raw());
            sys::cuCtxPushCurrent_v2(context);
        }
        Current
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = null_mut();
        // SAFETY: `of` pushed one.
        unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}
