//! What others bring: memory that they write again, pinned arrays that go from stream to stream, allocators,
//! captures.

use std::error::Error as StdError;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use convfuse::graph::presets::KernelBench79;
use convfuse::graph::{Chain, Layer};
use convfuse::raw::{DeviceAllocator, RawPointer, RawStream};
use convfuse::spec::{ClampSpec, PointwiseSpec};
use convfuse::{DType, Device, Error, Model, Options, PinnedArray, Stream, Tensor, data};
use cust::sys;
use ndarray::IxDyn;

use crate::captures::captured;
use crate::driver::Script;
use crate::ordering::{Current, LEN, WITH_POOLS, array, holds, late, tensor};

/// Memory of the device that this library does not know.
pub(crate) fn foreign(device: &Device) -> RawPointer {
    let _current = Current::of(device);
    let mut address = 0;
    // SAFETY: a place for one address.
    unsafe { sys::cuMemAlloc_v2(&mut address, LEN * 4) };
    with_exposed_provenance_mut(address as usize)
}

pub(crate) fn over(stream: &Stream, pointer: RawPointer) -> Tensor {
    // SAFETY: the memory has as many floats, stays to the end of the process, and is written in the stream's
    // order only.
    let lent =
        unsafe { Tensor::from_raw_parts(stream, pointer, &[LEN], None, DType::F32, Box::new(())) };
    lent.unwrap()
}

#[test]
fn what_a_lender_writes_anew_is_waited_for_anew() {
    let test = "others::what_a_lender_writes_anew_is_waited_for_anew";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let pointer = foreign(&device);
    // The lender, who knows nothing of the reader, and what it lends.
    let (mut lender, x) = (over(&home, pointer), over(&home, pointer));
    let mut back = array(&device, 0.0);
    // To drop one of these would wait for its copy.
    let values = [1.0, 2.0, 3.0].map(|value| (value, array(&device, value)));
    for (value, source) in &values {
        lender.copy_from_pinned(source).unwrap();
        x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
        assert!(holds(&back, *value), "{value}");
    }
    script.expect_no_violations();
}

#[test]
fn pinned_arrays_go_from_stream_to_stream_in_the_order_of_the_calls() {
    let test = "others::pinned_arrays_go_from_stream_to_stream_in_the_order_of_the_calls";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (one, two) = (device.stream().unwrap(), device.stream().unwrap());
    let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
    let (mut between, mut back) = (array(&device, 0.0), array(&device, 0.0));
    // Read after written.
    tensor(&one, &ones).copy_to_pinned(&mut between).unwrap();
    tensor(&two, &between).copy_to_pinned(&mut back).unwrap();
    assert!(holds(&back, 1.0));
    // Written after read.
    let x = tensor(&one, &between);
    tensor(&two, &twos).copy_to_pinned(&mut between).unwrap();
    two.synchronize().unwrap();
    x.copy_to_pinned(&mut back).unwrap();
    assert!(holds(&back, 1.0));
    // Written after written.
    tensor(&one, &ones).copy_to_pinned(&mut between).unwrap();
    tensor(&two, &twos).copy_to_pinned(&mut between).unwrap();
    two.synchronize().unwrap();
    one.synchronize().unwrap();
    assert!(holds(&between, 2.0));
    script.expect_no_violations();
}

/// How often a stream was told to wait for another.
fn waits(script: &Script) -> u32 {
    let counts = script.counts();
    let waits = counts.iter().find(|count| count.0 == "cuStreamWaitEvent");
    waits.map_or(0, |count| count.1)
}

#[test]
fn chunks_of_pinned_arrays_do_not_wait_for_each_other() {
    let test = "others::chunks_of_pinned_arrays_do_not_wait_for_each_other";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let clamp = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(-2.0, 2.0)));
    let chain = Chain::new(4, [clamp]).unwrap();
    let model = Model::init(&device.stream().unwrap(), &chain, 1).unwrap();
    let shape = [16, 4, 128, 128];
    let x = PinnedArray::<f32>::zeros(&device, &shape).unwrap();
    let mut y = PinnedArray::<f32>::zeros(&device, &shape).unwrap();
    let copies = |script: &Script| {
        let counts = script.counts();
        let copies = counts
            .iter()
            .find(|count| count.0 == "cuMemcpyDtoHAsync_v2");
        copies.map_or(0, |count| count.1)
    };
    model
        .forward_pinned(&x, &mut y, &Options::default())
        .unwrap();
    assert!(copies(&script) > 2, "{} chunks", copies(&script));
    // Neither in a second run, nor after the host has looked.
    model
        .forward_pinned(&x, &mut y, &Options::default())
        .unwrap();
    assert_eq!(y.view().unwrap().sum(), 0.0);
    model
        .forward_pinned(&x, &mut y, &Options::default())
        .unwrap();
    assert_eq!(waits(&script), 0);
    script.expect_no_violations();
}

#[test]
fn streams_that_read_one_pinned_array_do_not_wait_for_each_other() {
    let test = "others::streams_that_read_one_pinned_array_do_not_wait_for_each_other";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let ones = array(&device, 1.0);
    let before = waits(&script);
    let streams: Vec<Stream> = (0..3).map(|_| device.stream().unwrap()).collect();
    let all: Vec<Tensor> = streams.iter().map(|stream| tensor(stream, &ones)).collect();
    assert_eq!(waits(&script), before);
    drop(all);
    script.expect_no_violations();
}

/// Gives one address, and counts what comes back.
struct Always {
    pointer: Mutex<usize>,
    freed: AtomicUsize,
}

// SAFETY: it is not: what it gives is to be refused.
unsafe impl DeviceAllocator for Always {
    fn allocate(
        &self,
        _bytes: usize,
        _stream: RawStream,
    ) -> Result<RawPointer, Box<dyn StdError + Send + Sync>> {
        match *self.pointer.lock().unwrap() {
            1 => Err("there is none today".into()),
            address => Ok(with_exposed_provenance_mut(address)),
        }
    }

    fn free(&self, _: RawPointer, _: usize, _: RawStream) {
        self.freed.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_an_allocator_must_not_give_is_refused() {
    let test = "others::what_an_allocator_must_not_give_is_refused";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let allocator = Arc::new(Always {
        pointer: Mutex::new(0),
        freed: AtomicUsize::new(0),
    });
    let stream = device.stream().unwrap().with_allocator(allocator.clone());
    let refused = |address: usize| {
        *allocator.pointer.lock().unwrap() = address;
        Tensor::zeros(&stream, &[LEN], DType::F32).unwrap_err()
    };
    for (address, says) in [(0, "returned null"), (1, "there is none today")] {
        let error = refused(address);
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(allocator.freed.load(Ordering::SeqCst), 0);
    assert_eq!(
        refused(0x1010).to_string(),
        "the allocator in use: address 0x1010 is no multiple of 256"
    );
    assert_eq!(allocator.freed.load(Ordering::SeqCst), 1);
    script.expect_no_violations();
}

#[test]
fn what_a_capture_kept_goes_back_with_what_is_dropped_next() {
    let test = "others::what_a_capture_kept_goes_back_with_what_is_dropped_next";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let stream = device.stream().unwrap();
    let pointer = foreign(&device);
    let owner = Arc::new(());
    let lend = || {
        let owner = Box::new(Arc::clone(&owner));
        // SAFETY: as in `over`.
        let lent =
            unsafe { Tensor::from_raw_parts(&stream, pointer, &[LEN], None, DType::F32, owner) };
        lent.unwrap()
    };
    let (first, second) = (lend(), lend());
    captured(&device, &stream, || drop(first));
    assert_eq!(Arc::strong_count(&owner), 3);
    drop(second);
    assert_eq!(Arc::strong_count(&owner), 1);
    script.expect_no_violations();
}

#[test]
fn elements_at_no_address_are_refused() {
    let test = "others::elements_at_no_address_are_refused";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    for stream in [device.stream().unwrap(), Device::cpu().stream().unwrap()] {
        let lent = |shape: &[usize]| {
            // SAFETY: there is nothing to use.
            unsafe {
                Tensor::from_raw_parts(&stream, null_mut(), shape, None, DType::F32, Box::new(()))
            }
        };
        assert!(lent(&[0, 3]).unwrap().as_raw().unwrap().is_null());
        assert_eq!(
            lent(&[3]).unwrap_err().to_string(),
            "from_raw_parts: the address is null, but there are elements"
        );
    }
    script.expect_no_violations();
}

#[test]
fn plans_of_a_threads_default_stream_may_go_in_another_thread() {
    let test = "others::plans_of_a_threads_default_stream_may_go_in_another_thread";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let home = device.stream().unwrap();
    let chain = KernelBench79::default().chain().unwrap();
    let shape = [1, 3, 5, 6, 7];
    let model = Model::init(&home, &chain, 7).unwrap();
    let used = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: 2 names the default stream of the thread, which is there for the process.
            let own = unsafe { Stream::from_raw(&device, std::ptr::without_provenance_mut(2)) };
            let own = own.unwrap();
            let mut plan = model.plan(&own, &shape, &Options::default()).unwrap();
            let mut y = plan.output().unwrap();
            let x = Tensor::from_array(&own, &data::fill(1, IxDyn(&shape))).unwrap();
            plan.execute(&x, &mut y).unwrap();
            (plan, x, y)
        });
        thread.join().unwrap()
    });
    let (plan, x, y) = used;
    drop((model, plan));
    home.synchronize().unwrap();
    script.finish();
    drop((x, y));
    script.expect_no_violations();
}

#[test]
fn graphs_write_to_memory_of_others_that_nobody_shares() {
    let test = "others::graphs_write_to_memory_of_others_that_nobody_shares";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let model = Model::init(&stream, Chain::new(1, [Layer::relu()]).unwrap(), 1).unwrap();
    let plan = || {
        let shape = [1, 1, LEN];
        model.plan(&stream, &shape, &Options::default()).unwrap()
    };
    let (from, to) = (foreign(&device), foreign(&device));
    let lent = |stream: &Stream, pointer| over(stream, pointer).reshape(&[1, 1, LEN]).unwrap();
    let x = lent(&stream, from);
    let shared = lent(&stream, to);
    let refusals = [
        (shared.clone(), "is shared with other tensors"),
        (lent(&other, to), "belongs to another stream than the plan"),
        (over(&stream, to), "has shape [1000], must be [1, 1, 1000]"),
    ];
    for (y, says) in refusals {
        let refused = plan().capture_into(x.clone(), y).unwrap_err().to_string();
        assert!(refused.ends_with(says), "{refused}");
    }
    drop(shared);
    let mut captured = plan().capture_into(x, lent(&stream, to)).unwrap();
    assert_eq!(captured.output().as_raw().unwrap(), to);
    for _ in 0..2 {
        captured.replay().unwrap();
    }
    let held = captured.output().clone();
    assert!(matches!(captured.replay(), Err(Error::TensorInUse { .. })));
    drop((held, captured));
    script.expect_no_violations();
}

/// A stream that this library does not know.
fn foreign_stream(device: &Device) -> sys::CUstream {
    let _current = Current::of(device);
    let mut stream = null_mut();
    // SAFETY: a place for one handle.
    let made = unsafe { sys::cuStreamCreateWithPriority(&mut stream, 1, 0) };
    assert_eq!(made, sys::CUresult::CUDA_SUCCESS);
    stream
}

#[test]
fn streams_of_others_may_go_before_what_they_read() {
    let test = "others::streams_of_others_may_go_before_what_they_read";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let home = device.stream().unwrap();
    let model = Model::init(&home, KernelBench79::default().chain().unwrap(), 7).unwrap();
    let shape = [1, 3, 5, 6, 7];
    let x = Tensor::from_array(&home, &data::fill(1, IxDyn(&shape))).unwrap();
    let values = array(&device, 1.0);
    for _ in 0..3 {
        let theirs = foreign_stream(&device);
        // SAFETY: the stream is destroyed after all that is made on it.
        let stream = unsafe { Stream::from_raw(&device, theirs.cast()) }.unwrap();
        let mut plan = model.plan(&stream, &shape, &Options::default()).unwrap();
        let mut y = plan.output().unwrap();
        plan.execute(&x, &mut y).unwrap();
        tensor(&stream, &values);
        drop((plan, y, stream));
        let _current = Current::of(&device);
        // SAFETY: the handle is ours and used nowhere else any more.
        unsafe { sys::cuStreamDestroy_v2(theirs) };
    }
    drop((x, model, values));
    home.synchronize().unwrap();
    script.expect_no_violations();
}

#[test]
fn memory_that_many_streams_read_remembers_a_few() {
    let test = "others::memory_that_many_streams_read_remembers_a_few";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let home = device.stream().unwrap();
    let (one, two) = (array(&device, 1.0), array(&device, 2.0));
    let x = tensor(&home, &one);
    let mut backs = Vec::new();
    for _ in 0..200 {
        let mut back = array(&device, 0.0);
        let read = x.on(&device.stream().unwrap()).unwrap();
        read.copy_to_pinned(&mut back).unwrap();
        backs.push(back);
    }
    let alive = script.alive(device.ordinal().unwrap_or_default());
    drop(x);
    let overwritten = tensor(&home, &two);
    // The stream that overwrites goes first: whoever reads has to be waited for.
    home.synchronize().unwrap();
    assert!(backs.iter().all(|back| holds(back, 1.0)), "read before");
    drop((overwritten, backs));
    script.expect_no_violations();
    let count = |kind: &str| {
        let line = alive.lines().find_map(|line| line.strip_prefix(kind));
        line.map_or(0, |count| count.trim().parse().unwrap())
    };
    assert_eq!(
        count("streams:"),
        1,
        "streams are not kept for what they read"
    );
    // One for each array that was copied to, and some for the reads.
    assert!((200..300).contains(&count("events:")), "{alive}");
}
