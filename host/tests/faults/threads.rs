//! Two threads, one of which is held in a call of the driver.
//!
//! These are the system's threads and locks, as users have them, in the one order of each test that matters
//! most. `host/tests/interleavings` tries many orders.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use convfuse::graph::presets::KernelBench85;
use convfuse::{DType, Device, Model, Options, PinnedArray, Tensor};

use crate::driver::{Work, scripted};

const LEN: usize = 1000;

/// Two threads let one stream read one tensor. The one that reads first is held where it has recorded its
/// event, so that the other's event is later but could be noted sooner.
#[test]
fn the_later_of_two_reads_is_the_one_that_is_waited_for() {
    let Some(script) = scripted("threads::the_later_of_two_reads_is_the_one_that_is_waited_for")
    else {
        return;
    };
    let device = Device::gpu(0).unwrap();
    script.begin(Work::WhenWaitedFor);
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let mut ones = PinnedArray::<f32>::zeros(&device, &[LEN]).unwrap();
    ones.view_mut().unwrap().fill(1.0);
    let new = || PinnedArray::<f32>::zeros(&device, &[LEN]).unwrap();
    let (mut first, mut second) = (new(), new());
    let x = Tensor::from_pinned(&home, &ones).unwrap();
    let on_reader = x.on(&reader).unwrap();
    // The first record says that the tensor is written, the second that it was read.
    script.gate("cuEventRecord", 2);
    thread::scope(|scope| {
        scope.spawn(|| on_reader.copy_to_pinned(&mut first).unwrap());
        script.wait_at_gate();
        let (done, is_done) = mpsc::channel();
        let (on_reader, second) = (&on_reader, &mut second);
        scope.spawn(move || {
            on_reader.copy_to_pinned(second).unwrap();
            let _ = done.send(());
        });
        // It waits for the lock; without one it would be done now.
        let _ = is_done.recv_timeout(Duration::from_millis(300));
        script.open_gate();
    });
    drop((x, on_reader));
    let overwritten = Tensor::zeros(&home, &[LEN], DType::F32).unwrap();
    home.synchronize().unwrap();
    drop(overwritten);
    for array in [first, second] {
        assert_eq!(array.view().unwrap().sum(), LEN as f32);
    }
    script.expect_no_violations();
}

/// Two threads open the same device at a time.
#[test]
fn a_device_is_opened_once() {
    let Some(script) = scripted("threads::a_device_is_opened_once") else {
        return;
    };
    script.begin(Work::AtOnce);
    script.gate("cuDevicePrimaryCtxRetain", 1);
    thread::scope(|scope| {
        scope.spawn(|| Device::gpu(0).unwrap());
        script.wait_at_gate();
        let second = scope.spawn(|| Device::gpu(0).unwrap());
        thread::sleep(Duration::from_millis(100));
        script.open_gate();
        second.join().unwrap();
    });
    let alive = script.alive(0);
    assert!(
        alive.contains("contexts: 1\n") && alive.contains("pools: 1\n"),
        "{alive}"
    );
}

/// Two threads plan the same at a time: the first is held in `call`, which loads a kernel or launches what
/// prepares parameters. How often a function was called, and what was launched.
fn planned_by_two(test: &str, call: &str, counted: &str) -> Option<(u32, String)> {
    let script = scripted(&format!("threads::{test}"))?;
    let device = Device::gpu(0).unwrap();
    let chain = KernelBench85::default().chain().unwrap();
    let model = Model::init(&device.stream().unwrap(), &chain, 1).unwrap();
    script.begin(Work::AtOnce);
    script.gate(call, 1);
    let plan = || {
        let stream = device.stream().unwrap();
        let plan = model.plan(&stream, &[2, 8, 11, 14], &Options::default());
        plan.unwrap()
    };
    thread::scope(|scope| {
        let first = scope.spawn(plan);
        script.wait_at_gate();
        let second = scope.spawn(plan);
        thread::sleep(Duration::from_millis(300));
        script.open_gate();
        drop((first.join().unwrap(), second.join().unwrap()));
    });
    script.expect_no_violations();
    let counts = script.counts();
    let count = counts.iter().find(|(name, _)| name == counted);
    Some((count.map_or(0, |count| count.1), script.log(0)))
}

#[test]
fn a_kernel_is_loaded_once() {
    let test = "a_kernel_is_loaded_once";
    let Some((loads, log)) = planned_by_two(test, "cuLinkComplete", "cuLinkComplete") else {
        return;
    };
    // What prepares the filters, and the steps of the plan.
    assert_eq!(loads, 5, "{log}");
}

#[test]
fn parameters_are_prepared_once() {
    let test = "parameters_are_prepared_once";
    let Some((_, log)) = planned_by_two(test, "cuLaunchKernel", "") else {
        return;
    };
    assert_eq!(log.matches("implicit_gemm_filters").count(), 1, "{log}");
}
