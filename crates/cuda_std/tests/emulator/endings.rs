//! Kernels that never end, panic, or crash; launches that no device accepts; several devices and threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::emulator::{Device, Launch};
use cuda_std::prelude::*;

/// Waits for a flag that no thread sets.
#[kernel]
unsafe fn spin(flag: *mut u32) {
    unsafe { while GlobalMut::new(flag, 1).atomic_load(0) == 0 {} }
}

#[test]
fn a_loop_that_calls_meets_the_step_limit() {
    let device = Device::new();
    let flag = upload(&device, &[0_u32]);
    let launch = Launch {
        step_limit: 1_000_000,
        ..shape(1, 4)
    };
    let fault = run_faulty::<spin>(&device, &launch, (flag.ptr(),));
    faults! { fault => StepLimit(limit: 1_000_000); }
    assert!(fault.location.is_some());
    flag.write(0, &[1]).unwrap();
    run_clean::<spin>(&device, &launch, (flag.ptr(),));
}

static STAYS_ZERO: AtomicU32 = AtomicU32::new(0);

/// Loops without a call of `cuda_std`.
#[kernel]
unsafe fn hang() {
    while STAYS_ZERO.load(Ordering::Relaxed) == 0 {
        std::hint::spin_loop();
    }
}

#[test]
fn a_loop_that_never_calls_is_interrupted_and_the_device_works_on() {
    let device = Device::new();
    let launch = Launch {
        progress_limit: Duration::from_millis(300),
        ..shape(1, 4)
    };
    let fault = unsafe { device.launch::<hang>(&launch, ()) }.unwrap_err();
    faults! { fault => NoProgress; }
    assert_eq!(fault.kernel, Some("hang"));
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        assert_eq!(fault.thread.unwrap().thread, [0, 0, 0]);
        let flag = upload(&device, &[1_u32]);
        run_clean::<spin>(&device, &launch, (flag.ptr(),));
    }
}

/// Failures that Rust or the processor detects.
#[kernel]
unsafe fn crash(how: u32) {
    let t = thread::thread_idx_x();
    thread::sync_threads();
    if t != 3 {
        return;
    }
    match how {
        0 => {
            let table = [1, 2, 3];
            assert_eq!(table[std::hint::black_box(t as usize)], 0);
        }
        1 => {
            std::hint::black_box(recurse(u64::from(t), false));
        }
        2 => {
            std::hint::black_box(recurse(u64::from(t), true));
        }
        // SAFETY: none; the test needs an invalid access.
        3 => unsafe {
            std::ptr::without_provenance_mut::<u32>(std::hint::black_box(16)).write_volatile(1)
        },
        _ => {
            std::hint::black_box(7 / std::hint::black_box(t - 3));
        }
    }
}

#[inline(never)]
fn recurse(n: u64, calls: bool) -> u64 {
    let frame = std::hint::black_box([n; 64]);
    if calls {
        thread::nanosleep(1);
    }
    if n == u64::MAX {
        0
    } else {
        recurse(n + 1, calls) + frame[n as usize % 64]
    }
}

#[test]
fn a_panic_becomes_a_fault_with_its_message_and_place() {
    let fault = |how| run_faulty::<crash>(&Device::new(), &shape(1, 8), (how,));
    let panic = fault(0);
    faults! {
        panic => Panic, "index out of bounds";
        fault(4) => Panic, "divide by zero";
        // Recursion that calls into the library.
        fault(2) => StackOverflow;
    }
    assert_eq!(panic.thread.unwrap().thread, [3, 0, 0]);
    assert!(panic.location.unwrap().file().ends_with("endings.rs"));
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn what_the_processor_refuses_ends_the_launch_and_not_the_process() {
    let device = Device::new();
    faults! {
        run_faulty::<crash>(&device, &shape(1, 8), (1,)) => StackOverflow;
        run_faulty::<crash>(&device, &shape(1, 8), (3,)) => Signal;
    }
    let flag = upload(&device, &[1_u32]);
    run_clean::<spin>(&device, &shape(1, 4), (flag.ptr(),));
}

#[kernel(max_threads = 128, min_blocks = 2)]
unsafe fn bounded() {}

#[test]
fn launches_beyond_the_limits_are_refused() {
    let device = Device::new();
    let mut refused = 0;
    let mut try_shape = |grid, block| {
        let launch = Launch {
            grid,
            block,
            ..Launch::default()
        };
        if let Err(fault) = unsafe { device.launch::<bounded>(&launch, ()) } {
            faults! { fault => Launch; }
            refused += 1;
        }
    };
    try_shape([1, 1, 1], [128, 1, 1]);
    for (grid, block) in [
        ([0, 1, 1], [1, 1, 1]),
        ([1, 65_536, 1], [1, 1, 1]),
        ([1, 1, 65_536], [1, 1, 1]),
        ([1 << 31, 1, 1], [1, 1, 1]),
        ([1, 1, 1], [1, 0, 1]),
        ([1, 1, 1], [129, 1, 1]),
        ([1, 1, 1], [1, 1, 65]),
        ([1, 1, 1], [64, 64, 1]),
    ] {
        try_shape(grid, block);
    }
    assert_eq!(refused, 8);
    let too_much = Launch {
        shared_bytes: 227 * 1024 + 1,
        ..shape(1, 1)
    };
    faults! { unsafe { device.launch::<bounded>(&too_much, ()) }.unwrap_err() => SharedMemory; }
}

shared_array! { static LARGE: [f32; 30_000]; static SMALL: [f32; 100]; }

#[kernel]
unsafe fn both_arrays() {
    unsafe {
        LARGE.view().store(0, 1.0);
        SMALL.view().store(0, 1.0);
    }
}

#[test]
fn static_and_dynamic_shared_memory_count_together() {
    let device = Device::new();
    let stats = run_clean::<both_arrays>(&device, &shape(1, 1), ());
    assert_eq!(stats.shared_bytes, 4 * 30_100);
    let launch = Launch {
        shared_bytes: 112_049,
        ..shape(1, 1)
    };
    faults! { run_faulty::<both_arrays>(&device, &launch, ()) => SharedMemory; }
}

/// Writes each thread's indices in the launch.
#[kernel]
unsafe fn places(y: *mut u32) {
    unsafe {
        let y = GlobalMut::new(y, 2 * 3 * 2 * 4 * 2 * 2 * 5);
        let index = thread::index();
        let [at, block] = [thread::index_3d(), thread::block_idx()];
        y.store_vec(4 * index as usize, [at.x, at.y, at.z, 0]);
        y.store(
            4 * index as usize + 3,
            block.x + 10 * block.y + 100 * block.z,
        );
    }
}

#[test]
fn indices_cover_the_launch_in_three_dimensions() {
    let device = Device::new();
    let launch = Launch {
        grid: [2, 3, 2],
        block: [2, 1, 5],
        ..Launch::default()
    };
    let y = device.alloc(4 * 4 * 120).unwrap();
    run_clean::<places>(&device, &launch, (y.ptr(),));
    let y = download::<u32>(&y);
    // Block (1, 2, 1), thread (1, 0, 4): the last one.
    assert_eq!(y[4 * 119..], [3, 2, 9, 121]);
    // Block (1, 0, 0), thread (0, 0, 1).
    assert_eq!(y[4 * 12..4 * 13], [2, 0, 1, 1]);
}

/// Records the order in which threads run.
#[kernel]
unsafe fn order(next: *mut u32, y: *mut u32) {
    unsafe {
        let (next, y) = (GlobalMut::new(next, 1), GlobalMut::new(y, 256));
        let turn = next.atomic_add(0, 1);
        y.store(turn as usize, thread::index_1d());
    }
}

#[test]
fn a_seed_shuffles_the_order_and_repeats_it() {
    let device = Device::new();
    let run = |seed| {
        let (next, y) = (upload(&device, &[0_u32]), device.alloc(1024).unwrap());
        let launch = Launch {
            seed,
            ..shape(8, 32)
        };
        unsafe { device.launch::<order>(&launch, (next.ptr(), y.ptr())) }.unwrap();
        download::<u32>(&y)
    };
    assert_eq!(run(None), (0..256).collect::<Vec<u32>>());
    assert_ne!(run(Some(1)), run(None));
    assert_ne!(run(Some(1)), run(Some(2)));
    assert_eq!(run(Some(1)), run(Some(1)));
}

#[test]
fn devices_and_threads_run_side_by_side() {
    let shared = Device::new();
    std::thread::scope(|scope| {
        for i in 0..6 {
            let device = if i % 2 == 0 {
                shared.clone()
            } else {
                Device::new()
            };
            scope.spawn(move || {
                for _ in 0..20 {
                    let (next, y) = (upload(&device, &[0_u32]), device.alloc(1024).unwrap());
                    unsafe { device.launch::<order>(&shape(8, 32), (next.ptr(), y.ptr())) }
                        .unwrap();
                    assert_eq!(download::<u32>(&next), [256]);
                }
            });
        }
    });
}
