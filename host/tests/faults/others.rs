//! Objects of other libraries: memory that they write again, pinned arrays that several streams use,
//! allocators, streams.

use std::ptr::null_mut;
use std::sync::Arc;

use convfuse::graph::Layer;
use convfuse::{Device, Options, PinnedArray, Stream, Tensor};
use cust::sys;
use ndarray::ArrayD;

use crate::things::*;

#[test]
fn what_a_lender_writes_anew_is_waited_for_anew() {
    late(|_, device, [home, reader]| {
        let pointer = foreign(&device);
        // A tensor of the lender, who does not know of the reader, and the lent tensor.
        let (mut lender, x) = (over(&home, pointer), over(&home, pointer));
        let mut back = array(&device, 0.0);
        // All sources stay alive, because dropping one would wait for its copy.
        let values = [1.0, 2.0, 3.0].map(|value| (value, array(&device, value)));
        for (value, source) in &values {
            lender.copy_from_pinned(source).unwrap();
            read(&x, &reader, &mut back);
            assert!(holds(&back, *value), "{value}");
        }
    });
}

#[test]
fn pinned_arrays_go_from_stream_to_stream_in_the_order_of_the_calls() {
    late(|_, device, [one, two]| {
        let (ones, twos) = (array(&device, 1.0), array(&device, 2.0));
        let (mut between, mut back) = (array(&device, 0.0), array(&device, 0.0));
        // Read after write.
        tensor(&one, &ones).copy_to_pinned(&mut between).unwrap();
        tensor(&two, &between).copy_to_pinned(&mut back).unwrap();
        assert!(holds(&back, 1.0));
        // Write after read.
        let x = tensor(&one, &between);
        tensor(&two, &twos).copy_to_pinned(&mut between).unwrap();
        two.synchronize().unwrap();
        x.copy_to_pinned(&mut back).unwrap();
        assert!(holds(&back, 1.0));
        // Write after write.
        tensor(&one, &ones).copy_to_pinned(&mut between).unwrap();
        tensor(&two, &twos).copy_to_pinned(&mut between).unwrap();
        two.synchronize().unwrap();
        one.synchronize().unwrap();
        assert!(holds(&between, 2.0));
    });
}

/// Neither chunks of one array, nor streams that read the same array, wait for each other.
#[test]
fn uses_of_pinned_arrays_that_do_not_meet_do_not_wait_for_each_other() {
    late(|script, device, [home, other]| {
        let ones = array(&device, 1.0);
        let all = [&home, &other].map(|stream| tensor(stream, &ones));
        let model = model_of(&home, 4, Layer::clamp(-2.0, 2.0));
        let shape = [16, 4, 128, 128];
        let x = PinnedArray::<f32>::zeros(&device, &shape).unwrap();
        let mut y = PinnedArray::<f32>::zeros(&device, &shape).unwrap();
        let mut run = || {
            let options = Options::default();
            model.forward_pinned(&x, &mut y, &options).unwrap();
            y.view().unwrap().sum()
        };
        run();
        let chunks = script.count("cuMemcpyDtoHAsync_v2");
        assert!(chunks > 2, "{chunks} chunks");
        // A second run after the host has read the result does not wait either.
        assert_eq!([run(), run()], [0.0; 2]);
        assert_eq!(script.count("cuStreamWaitEvent"), 0);
        drop(all);
    });
}

#[test]
fn what_a_capture_kept_goes_back_with_what_is_dropped_next() {
    late(|_, device, [stream, _]| {
        let (pointer, owner) = (foreign(&device), Arc::new(()));
        let lend = || lent(&stream, pointer, &[LEN], Box::new(Arc::clone(&owner))).unwrap();
        let (first, second) = (lend(), lend());
        in_capture(&stream, || drop(first));
        assert_eq!(Arc::strong_count(&owner), 3);
        drop(second);
        assert_eq!(Arc::strong_count(&owner), 1);
    });
}

#[test]
fn elements_at_no_address_are_refused() {
    late(|_, _, [stream, _]| {
        for stream in [stream, Device::cpu().stream().unwrap()] {
            let lent = |shape: &[usize]| lent(&stream, null_mut(), shape, Box::new(()));
            assert!(lent(&[0, 3]).unwrap().as_raw().unwrap().is_null());
            assert_eq!(
                lent(&[3]).unwrap_err().to_string(),
                "from_raw_parts: the address is null, but there are elements"
            );
        }
    });
}

#[test]
fn plans_of_a_threads_default_stream_may_go_in_another_thread() {
    late(|script, device, [home, _]| {
        let model = model_79(&home);
        let (plan, x, y) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let own = default_stream(&device, 2);
                let (mut plan, x, mut y) = planned(&model, &own, &SHAPE_79);
                plan.execute(&x, &mut y).unwrap();
                (plan, x, y)
            });
            thread.join().unwrap()
        });
        drop((model, plan));
        home.synchronize().unwrap();
        script.finish();
        drop((x, y));
    });
}

#[test]
fn graphs_write_to_memory_of_others_that_nobody_shares() {
    late(|_, device, [stream, other]| {
        const SHAPE: [usize; 3] = [1, 1, LEN];
        let model = model_of(&stream, 1, Layer::relu());
        let plan = || model.plan(&stream, &SHAPE, &Options::default()).unwrap();
        let (from, to) = (foreign(&device), foreign(&device));
        let lent = |stream: &Stream, pointer| over(stream, pointer).reshape(&SHAPE).unwrap();
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
        let graph = plan().capture_into(x.clone(), lent(&stream, to));
        let mut captured = graph.unwrap();
        assert_eq!(captured.output().as_raw().unwrap(), to);
        let ones = ArrayD::<f32>::ones(&SHAPE[..]);
        let refused = captured.write(&ones).unwrap_err();
        let says = "captured plan: the input is shared with other tensors";
        assert_eq!(refused.to_string(), says);
        drop(x);
        captured.write(&ones).unwrap();
        for _ in 0..2 {
            captured.replay().unwrap();
        }
        let held = captured.output().clone();
        let refused = captured.replay().unwrap_err().to_string();
        assert_eq!(
            refused,
            "captured plan: the output is shared with other tensors"
        );
        drop((held, captured));
    });
}

/// Returns a stream that this library does not know.
fn foreign_stream(device: &Device) -> sys::CUstream {
    let _current = Current::of(device).unwrap();
    let mut stream = null_mut();
    // SAFETY: `stream` is a valid place for one handle.
    let made = unsafe { sys::cuStreamCreateWithPriority(&mut stream, 1, 0) };
    called("cuStreamCreateWithPriority", made).unwrap();
    stream
}

#[test]
fn streams_of_others_may_go_before_what_they_read() {
    late(|_, device, [home, _]| {
        let model = model_79(&home);
        let x = input(&home, &SHAPE_79);
        let values = array(&device, 1.0);
        for _ in 0..3 {
            let theirs = foreign_stream(&device);
            // SAFETY: the stream is destroyed after everything that is made on it.
            let stream = unsafe { Stream::from_raw(&device, theirs.cast()) }.unwrap();
            let (mut plan, _, mut y) = planned(&model, &stream, &SHAPE_79);
            plan.execute(&x, &mut y).unwrap();
            tensor(&stream, &values);
            drop((plan, y, stream));
            let _current = Current::of(&device).unwrap();
            // SAFETY: the handle is ours and no longer used elsewhere.
            unsafe { sys::cuStreamDestroy_v2(theirs) };
        }
        drop((x, model, values));
        home.synchronize().unwrap();
    });
}

#[test]
fn memory_that_many_streams_read_remembers_a_few() {
    late(|script, device, [home, other]| {
        drop(other);
        let (one, two) = (array(&device, 1.0), array(&device, 2.0));
        let x = tensor(&home, &one);
        let mut backs = Vec::new();
        for _ in 0..200 {
            let mut back = array(&device, 0.0);
            read(&x, &device.stream().unwrap(), &mut back);
            backs.push(back);
        }
        let alive = script.alive(WITH_POOLS);
        drop(x);
        let overwritten = tensor(&home, &two);
        // The overwriting stream runs first, so it must wait for all readers.
        home.synchronize().unwrap();
        assert!(backs.iter().all(|back| holds(back, 1.0)), "read before");
        drop((overwritten, backs));
        let count = |kind: &str| {
            let line = alive.lines().find_map(|line| line.strip_prefix(kind));
            line.map_or(0, |count| count.trim().parse().unwrap())
        };
        // A tensor does not keep the streams that read it.
        assert_eq!(count("streams:"), 1);
        // One event for each array that was copied to, and some for the reads.
        assert!((200..300).contains(&count("events:")), "{alive}");
    });
}

#[test]
fn an_array_that_many_streams_read_is_written_after_all_of_them() {
    late(|_, device, _| {
        let mut values = array(&device, 1.0);
        // More reads than an array records.
        let read = |_| tensor(&device.stream().unwrap(), &values);
        let read: Vec<Tensor> = (0..1100).map(read).collect();
        values.view_mut().unwrap().fill(2.0);
        assert!(read.iter().all(|x| has(x, 1.0)));
    });
}
