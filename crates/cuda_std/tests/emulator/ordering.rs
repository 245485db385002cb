//! The ordering effects of fences and atomics, and their limits.

use crate::support::{download, faults, run_clean, run_racy, shape, upload};
use cuda_std::emulator::{Device, Launch};
use cuda_std::prelude::*;

const THREADS: u32 = 128;

/// Each block writes a partial sum; the one that finishes last adds them up.
#[kernel]
unsafe fn last_block_sums(
    partial: *mut f32,
    ticket: *mut u32,
    y: *mut f32,
    release: bool,
    acquire: bool,
) {
    unsafe {
        let (blocks, t) = (thread::grid_dim_x(), thread::thread_idx_x());
        let partial = GlobalMut::new(partial, blocks as usize * 32);
        let (ticket, y) = (GlobalMut::new(ticket, 1), GlobalMut::new(y, 1));
        partial.store((thread::block_idx_x() * 32 + t) as usize, 1.0);
        if release {
            thread::device_fence();
        }
        thread::sync_threads();
        let number = if t == 0 { ticket.atomic_add(0, 1) } else { 0 };
        if thread::sync_threads_or(u32::from(t == 0 && number == blocks - 1)) == 0 {
            return;
        }
        if acquire {
            thread::device_fence();
        }
        if t == 0 {
            let sum = (0..blocks as usize * 32).map(|i| partial.load(i)).sum();
            y.store(0, sum);
        }
    }
}

#[test]
fn the_last_block_may_read_the_others_results_behind_fences_on_both_sides() {
    let device = Device::new();
    let (partial, y) = (device.alloc(8 * 128).unwrap(), device.alloc(4).unwrap());
    for (release, acquire) in [(true, true), (true, false), (false, true)] {
        for seed in [None, Some(1), Some(2)] {
            let ticket = upload(&device, &[0_u32]);
            let launch = Launch {
                seed,
                ..shape(8, 32)
            };
            let arguments = (partial.ptr(), ticket.ptr(), y.ptr(), release, acquire);
            let result = unsafe { device.launch::<last_block_sums>(&launch, arguments) };
            if release && acquire {
                result.unwrap();
                assert_eq!(download::<f32>(&y), [256.0]);
            } else {
                faults! { result.unwrap_err() => Race; }
            }
        }
    }
}

/// One thread publishes a value under a flag, and other threads, or threads of other blocks, spin on the
/// flag.
#[kernel]
unsafe fn flag(x: *mut f32, flag: *mut u32, y: *mut f32, fenced: bool) {
    unsafe {
        let x = GlobalMut::new(x, 1);
        let flag = GlobalMut::new(flag, 1);
        let y = GlobalMut::new(y, 128);
        let t = thread::thread_idx_x();
        if t == THREADS - 1 {
            x.store(0, 5.0);
            if fenced {
                thread::block_fence();
            }
            flag.atomic_store(0, 1);
        }
        while flag.atomic_load(0) == 0 {
            thread::nanosleep(20);
        }
        thread::block_fence();
        y.store(t as usize, x.load(0));
    }
}

#[test]
fn a_flag_publishes_what_was_written_before_a_fence() {
    let device = Device::new();
    let (x, y) = (device.alloc(4).unwrap(), device.alloc(512).unwrap());
    for fenced in [true, false] {
        let flags = upload(&device, &[0_u32]);
        let result = unsafe {
            device.launch::<flag>(&shape(1, THREADS), (x.ptr(), flags.ptr(), y.ptr(), fenced))
        };
        assert_eq!(result.is_ok(), fenced);
    }
}

/// Counts with atomics; `plain` reads the count without one.
#[kernel]
unsafe fn count(counter: *mut u32, y: *mut u32, dropped: bool, plain: bool) {
    unsafe {
        let (counter, y) = (GlobalMut::new(counter, 1), GlobalMut::new(y, 128));
        let t = thread::thread_idx_x();
        counter.atomic_add(0, 1);
        if !dropped {
            thread::sync_threads();
        }
        let value = if plain {
            counter.load(0)
        } else {
            counter.atomic_load(0)
        };
        y.store(t as usize, value);
    }
}

#[test]
fn atomics_race_with_plain_accesses_but_not_with_each_other() {
    let device = Device::new();
    let (counter, y) = (upload(&device, &[0_u32]), device.alloc(512).unwrap());
    let launch = shape(1, THREADS);
    run_clean::<count>(&device, &launch, (counter.ptr(), y.ptr(), false, true));
    run_clean::<count>(&device, &launch, (counter.ptr(), y.ptr(), true, false));
    run_racy::<count>(&device, &launch, (counter.ptr(), y.ptr(), true, true));
}
