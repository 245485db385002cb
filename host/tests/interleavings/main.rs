//! The library's own locks and events in many orders: `shuttle` runs the threads, on the driver of
//! `crates/scripted-driver`, so without a GPU.
//!
//! A *scenario* is what a few threads do with a device of their own. It is run again and again; at each lock
//! and each call of the driver a scheduler says who goes on, once by chance and once by priorities that
//! change at a few points, from fixed seeds. Devices do their work no sooner than it is waited for, and note
//! work that uses memory which is not there any more. So a scenario fails where some order of the threads
//! leaves work without an order, and where they wait for each other.
//!
//! * `memory`: tensors, pinned memory, the pool
//! * `kernels`: devices that are opened, and kernels that are loaded
//! * `models`: plans, graphs, parameters, and arrays in chunks
#![cfg(target_os = "linux")]

#[path = "../faults/driver.rs"]
#[expect(dead_code, reason = "the tests of faults ask the driver for more")]
mod driver;
mod kernels;
mod memory;
mod models;

use convfuse::{Device, PinnedArray, Stream, Tensor};
use driver::{Script, Work, function, scripted};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use shuttle::{Config, Runner};

/// Elements of a test's tensors.
const LEN: usize = 8;

/// The device that a scenario has, with a pool, and as in a fresh process each time.
const ORDINAL: u32 = 0;

/// Points at which priorities change.
const DEPTH: usize = 4;

/// In a child that has the driver: runs the scenario this many times with either scheduler.
fn explore(test: &str, iterations: usize, scenario: fn(&Script)) {
    let Some(script) = scripted(test) else {
        return;
    };
    // SAFETY: this is the function's type.
    let schedule: extern "C" fn(extern "C" fn(), extern "C" fn() -> u64) =
        unsafe { function(c"scripted_schedule") };
    schedule(before_call, thread);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        // What a process has one of ends with the scenario, as it is meant to.
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(move || {
            script.begin(Work::WhenWaitedFor);
            scenario(&script);
            script.finish();
            script.expect_no_violations();
        })
    };
    let chance = RandomScheduler::new_from_seed(7, iterations);
    let priorities = PctScheduler::new_from_seed(7, DEPTH, iterations);
    assert_eq!(run(Box::new(chance)), iterations);
    assert_eq!(run(Box::new(priorities)), iterations);
}

/// Any operation on an atomic lets others go on; unlike `yield_now` it does not ask for it.
extern "C" fn before_call() {
    if shuttle::current::get_current_task().is_some() {
        AtomicUsize::new(0).load(Relaxed);
    }
}

extern "C" fn thread() -> u64 {
    shuttle::current::get_current_task().map_or(u64::MAX, |task| usize::from(task) as u64)
}

fn device() -> Device {
    Device::gpu(ORDINAL).expect("a scripted device")
}

/// What a copy that is queued reads or writes.
fn array(device: &Device, value: f32) -> PinnedArray<f32> {
    let mut array = PinnedArray::zeros(device, &[LEN]).unwrap();
    array.view_mut().unwrap().fill(value);
    array
}

/// A tensor of one value, whose writing is queued.
fn tensor(stream: &Stream, value: &PinnedArray<f32>) -> Tensor {
    Tensor::from_pinned(stream, value).unwrap()
}

/// Whether all elements that were copied are `value`; waits for the copy.
fn holds(array: &PinnedArray<f32>, value: f32) -> bool {
    let values = array.view().unwrap();
    values.iter().all(|&element| element == value)
}
