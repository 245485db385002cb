//! The driver does work only when somebody waits for it, and then only that work and the work before it, so
//! missing order shows.
//!
//! Each test checks rules of `host/src/device/gpu/memory.rs`, and fails without them. Memory is identified by
//! its content. The driver itself reports work that uses memory which does not exist or belongs to somebody
//! else.

use std::ptr::null_mut;

use convfuse::{Stream, Tensor};
use cust::sys;
use ndarray::ArrayView1;

use crate::driver::Mode;
use crate::things::*;

/// Drops a tensor that this many other streams are to read, while its own stream overwrites the memory with
/// its next allocation.
pub(crate) fn read_then_overwritten(home: &Stream, readers: usize) -> bool {
    let device = home.device();
    let ones = array(device, 1.0);
    let mut backs = vec![];
    backs.resize_with(readers, || array(device, 0.0));
    let x = tensor(home, &ones);
    for back in &mut backs {
        read(&x, &device.stream().unwrap(), back);
    }
    drop(x);
    assert!(has(&zeros(home), 0.0));
    backs.iter().all(|back| holds(back, 1.0))
}

#[test]
fn memory_is_given_back_after_its_last_reader() {
    late_on_both(|_, device, [home, _]| {
        assert!(read_then_overwritten(&home, 3));
        // The reader may be the tensor's own stream.
        let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
        tensor(&home, &ones).copy_to_pinned(&mut back).unwrap();
        assert!(holds(&back, 1.0));
    });
}

#[test]
fn without_an_event_the_host_waits_for_the_reader() {
    late(|script, _, [home, _]| {
        // The events of a run: `ones` is read, `x` is written, `x` is read, `back` is written, and so on.
        read_then_overwritten(&home, 1);
        let count = |name: &str| script.count(name);
        let (records, waits) = (count("cuEventRecord"), count("cuStreamWaitEvent"));
        assert!(records >= 4 && waits >= 2, "{records} and {waits}");
        // The second record opens the tensor to the reader, which has no alternative. Nor has the first wait.
        let records = [3, 4].map(|number| ("cuEventRecord", number));
        let waits = (2..=waits).map(|number| ("cuStreamWaitEvent", number));
        for (name, number) in records.into_iter().chain(waits) {
            script.begin(Mode::Late);
            script.fail(name, number, 304);
            assert!(read_then_overwritten(&home, 1), "{name} {number}");
            script.expect_no_violations();
        }
    });
}

#[test]
fn who_reads_and_who_overwrites_wait_for_each_other() {
    late_on_both(|_, device, [home, reader]| {
        let [ones, twos, threes] = [1.0, 2.0, 3.0].map(|value| array(&device, value));
        let mut back = array(&device, 0.0);
        let mut x = tensor(&home, &ones);
        read(&x, &reader, &mut back);
        x.copy_from_pinned(&twos).unwrap();
        home.synchronize().unwrap();
        assert!(holds(&back, 1.0), "overwritten before it was read");
        x.copy_from_pinned(&threes).unwrap();
        read(&x, &reader, &mut back);
        assert!(holds(&back, 3.0), "read before it was written anew");
    });
}

#[test]
fn pinned_memory_stays_until_its_copies_are_done() {
    late(|_, device, [stream, _]| {
        let x = tensor(&stream, &array(&device, 1.0));
        let mut back = array(&device, 0.0);
        x.copy_to_pinned(&mut back).unwrap();
        drop(back);
        // If the array were overwritten during the copy, the copy would read the new values.
        let mut ones = array(&device, 1.0);
        let x = tensor(&stream, &ones);
        ones.view_mut().unwrap().fill(2.0);
        assert!(has(&x, 1.0));
    });
}

#[test]
fn an_array_has_been_read_when_the_call_returns() {
    late(|script, device, [stream, _]| {
        let _current = Current::of(&device).unwrap();
        let mut start = null_mut();
        // SAFETY: `start` is a valid place for one pointer.
        let pinned = unsafe { sys::cuMemHostAlloc(&mut start, LEN * 4, 0) };
        called("cuMemHostAlloc", pinned).unwrap();
        let start: *mut f32 = start.cast();
        // SAFETY: `LEN` floats were allocated.
        let fill = |value| unsafe { (0..LEN).for_each(|index| start.add(index).write(value)) };
        // SAFETY: the floats are initialised, and nobody else uses them.
        let read =
            || Tensor::from_array(&stream, &unsafe { ArrayView1::from_shape_ptr(LEN, start) });
        fill(1.0);
        let x = read().unwrap();
        fill(2.0);
        assert!(has(&x, 1.0));
        // The rule also holds if the driver once fails to wait.
        script.fail_next("cuStreamSynchronize", 304);
        read().unwrap_err();
        // SAFETY: nothing uses the memory any more.
        unsafe { sys::cuMemFreeHost(start.cast()) };
    });
}

#[test]
fn memory_of_another_threads_default_stream_goes_back_after_that_streams_work() {
    late(|script, device, _| {
        let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
        let x = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let x = tensor(&default_stream(&device, 2), &ones);
                x.copy_to_pinned(&mut back).unwrap();
                x
            });
            thread.join().unwrap()
        });
        drop(x);
        script.finish();
        assert!(holds(&back, 1.0));
    });
}
