//! The library's own locks and events in many orders. `shuttle` runs the threads, on the driver of
//! `crates/scripted-driver`, so no GPU is needed.
//!
//! A *scenario* is the work of a few threads on a device. It is run many times. At each lock and each driver
//! call a scheduler selects the next thread: once at random, and once by priorities that change at a few
//! points, both from fixed seeds. Devices do work only when somebody waits for it, and report work that uses
//! freed memory. So a scenario fails if some order of the threads leaves work unordered, or if threads
//! deadlock.
//!
//! - `memory`: tensors, pinned memory, the pool
//! - `kernels`: opening of devices, and loading of kernels
//! - `models`: plans, graphs, parameters, and arrays in chunks
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

/// The number of points at which priorities change.
const DEPTH: usize = 4;

/// The device of a scenario, with a pool, as in a fresh process each time.
fn device() -> Device {
    Device::gpu(WITH_POOLS).expect("a scripted device")
}

/// Runs the scenario this many times with each scheduler, in a child that has the driver.
fn explore<F: Fn(Driver) + Copy + Send + Sync + 'static>(iterations: usize, scenario: F) {
    let body = |script: Driver| {
        script.schedule(interface::Scheduler {
            before_call,
            thread,
        });
        let run = |scheduler: Box<dyn Scheduler + Send>| {
            let mut config = Config::new();
            config.stack_size = 1 << 20;
            // Values that exist once per process end with the scenario, which is intended.
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

/// Lets other threads run: any operation on an atomic does. Unlike `yield_now`, it does not request a switch.
fn before_call() {
    if shuttle::current::get_current_task().is_some() {
        AtomicUsize::new(0).load(Relaxed);
    }
}

fn thread() -> u64 {
    shuttle::current::get_current_task().map_or(u64::MAX, |task| usize::from(task) as u64)
}
