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
#[path = "../faults/things.rs"]
#[expect(dead_code, reason = "as above")]
mod things;

use convfuse::Device;
use driver::{Driver, Mode, in_child, interface, test_of};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use shuttle::{Config, Runner};
use things::WITH_POOLS;

/// Points at which priorities change.
const DEPTH: usize = 4;

/// The device that a scenario has, with a pool, and as in a fresh process each time.
fn device() -> Device {
    Device::gpu(WITH_POOLS).expect("a scripted device")
}

/// In a child that has the driver: runs the scenario this many times with either scheduler.
fn explore<F: Fn(Driver) + Copy + Send + Sync + 'static>(iterations: usize, scenario: F) {
    let body = |script: Driver| {
        script.schedule(interface::Scheduler {
            before_call,
            thread,
        });
        let run = |scheduler: Box<dyn Scheduler + Send>| {
            let mut config = Config::new();
            config.stack_size = 1 << 20;
            // What a process has one of ends with the scenario, as it is meant to.
            config.silence_warnings = true;
            Runner::new(scheduler, config).run(move || {
                script.begin(Mode::Late);
                scenario(script);
                script.finish();
                script.expect_no_violations();
            })
        };
        let chance = RandomScheduler::new_from_seed(7, iterations);
        let priorities = PctScheduler::new_from_seed(7, DEPTH, iterations);
        assert_eq!(run(Box::new(chance)), iterations);
        assert_eq!(run(Box::new(priorities)), iterations);
    };
    in_child(test_of::<F>(), body);
}

/// Any operation on an atomic lets others go on; unlike `yield_now` it does not ask for it.
fn before_call() {
    if shuttle::current::get_current_task().is_some() {
        AtomicUsize::new(0).load(Relaxed);
    }
}

fn thread() -> u64 {
    shuttle::current::get_current_task().map_or(u64::MAX, |task| usize::from(task) as u64)
}
