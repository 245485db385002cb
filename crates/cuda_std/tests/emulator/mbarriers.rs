//! Transaction barriers and bulk copies.

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::async_proxy;
use cuda_std::emulator::{Device, FaultKind};
use cuda_std::mbarrier::{Barrier, copy_bulk};
use cuda_std::mma::pack_f16x2;
use cuda_std::prelude::*;
use cuda_std::wgmma::{self, MatrixDescriptor, unit};

shared_array! {
    static OBJECTS: [u64; 4];
    static STAGES: [f32; 256];
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// The consumers do not wait for the bytes.
    NoWait,
    /// The producer does not wait until a stage is free.
    NoEmptyWait,
    /// The barriers are used before their initialisation is visible.
    NoBarrierAfterInit,
    /// Fewer bytes are announced than copied.
    WrongBytes,
    /// The wait is for the other parity.
    WrongParity,
}

/// One thread streams five blocks of 128 floats through two stages, 128 threads add them up.
#[kernel]
unsafe fn stream(x: *const f32, y: *mut f32, bug: Bug) {
    const STEPS: u32 = 5;
    const CONSUMERS: u32 = 128;
    const STAGE_BYTES: u32 = 512;
    unsafe {
        let (x, y) = (Global::new(x, 128 * STEPS as usize), GlobalMut::new(y, 128));
        let (objects, stages, t) = (OBJECTS.view(), STAGES.view(), thread::thread_idx_x());
        let full = |stage| Barrier::at(objects, stage);
        let empty = |stage| Barrier::at(objects, 2 + stage);
        if t == 0 {
            for stage in 0..2 {
                full(stage).init(1);
                empty(stage).init(CONSUMERS);
            }
            async_proxy::fence_shared();
        }
        if bug != Bug::NoBarrierAfterInit {
            thread::sync_threads();
        }
        if t >= CONSUMERS {
            if t > CONSUMERS {
                return;
            }
            for step in 0..STEPS {
                let (stage, round) = (step % 2, step / 2);
                if bug != Bug::NoEmptyWait {
                    // Parity 1 of a new barrier: both stages are empty at first.
                    empty(stage).wait((round & 1) ^ 1);
                }
                let announced = if bug == Bug::WrongBytes && step == 3 {
                    STAGE_BYTES / 2
                } else {
                    STAGE_BYTES
                };
                full(stage).arrive_expect(announced);
                copy_bulk(
                    stages.addr(128 * stage),
                    x,
                    128 * step as usize,
                    STAGE_BYTES,
                    full(stage),
                );
            }
            return;
        }
        let mut sum = 0.0;
        for step in 0..STEPS {
            let (stage, round) = (step % 2, step / 2);
            let wrong = u32::from(bug == Bug::WrongParity && step == 2);
            if bug != Bug::NoWait || step != 1 {
                full(stage).wait((round & 1) ^ wrong);
            }
            sum += stages.load(128 * stage + (t + step) % 128);
            empty(stage).arrive();
        }
        y.store(t as usize, sum);
    }
}

#[test]
fn a_stream_of_bulk_copies_is_clean() {
    let device = Device::new();
    let values: Vec<f32> = (0..640).map(|i| (i % 7) as f32).collect();
    let (x, y) = (upload(&device, &values), device.alloc(512).unwrap());
    run_clean::<stream>(&device, &shape(1, 160), (x.ptr(), y.ptr(), Bug::None));
    let expected: Vec<f32> = (0..128)
        .map(|t| {
            (0..5)
                .map(|step| values[128 * step + (t + step) % 128])
                .sum()
        })
        .collect();
    assert_eq!(download::<f32>(&y), expected);
}

#[test]
fn mistakes_around_transaction_barriers_are_reported() {
    let device = Device::new();
    let (x, y) = (upload(&device, &[1.0_f32; 640]), device.alloc(512).unwrap());
    let fault = |bug| run_faulty::<stream>(&device, &shape(1, 160), (x.ptr(), y.ptr(), bug));
    faults! {
        fault(Bug::NoWait) => InFlight | Uninitialized | Race;
        fault(Bug::WrongBytes) => Deadlock | Barrier;
        fault(Bug::NoBarrierAfterInit) => Race | Uninitialized | Barrier;
    }
    // A thread that runs ahead causes a race, or a wait for a phase that is over.
    for bug in [Bug::NoEmptyWait, Bug::WrongParity] {
        let fault = fault(bug);
        assert!(
            !matches!(fault.kind, FaultKind::Uninitialized { .. }),
            "{fault}"
        );
    }
}

/// Misused arguments, one at a time.
#[kernel]
unsafe fn misuse(x: *const f32, how: u32) {
    unsafe {
        let (x, objects, stages) = (Global::new(x, 64), OBJECTS.view(), STAGES.view());
        let barrier = Barrier::at(objects, 0);
        match how {
            0 => barrier.arrive(),
            1 => barrier.init(0),
            _ => barrier.init(1),
        }
        async_proxy::fence_shared();
        match how {
            2 => copy_bulk(stages.addr(0), x, 0, 24, barrier),
            3 => copy_bulk(stages.addr(1), x, 0, 32, barrier),
            4 => copy_bulk(stages.addr(0), x, 1, 32, barrier),
            5 => copy_bulk(stages.addr(0), x, 60, 32, barrier),
            6 => copy_bulk(stages.addr(252), x, 0, 32, barrier),
            7 => barrier.wait(0),
            8 => {
                barrier.arrive_expect(16);
                barrier.arrive();
            }
            _ => barrier.wait(2),
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let device = Device::new();
    let x = upload(&device, &[1.0_f32; 64]);
    let fault = |how| run_faulty::<misuse>(&device, &shape(1, 1), (x.ptr(), how));
    faults! {
        fault(0) => Uninitialized;
        fault(1) => Barrier;
        fault(2) => Argument;
        fault(3) => Argument;
        fault(4) => Misaligned;
        fault(5) => OutOfBounds;
        fault(6) => OutsideAllocation;
        fault(7) => Deadlock, "lacks 1 arrival(s) and 0 byte(s)";
        fault(8) => Barrier;
        fault(9) => Barrier;
    }
}

/// Multiplies columns that a bulk copy wrote, without a proxy fence: both operations are asynchronous.
#[kernel(max_threads = 128)]
unsafe fn copy_and_multiply(x: *const u32, y: *mut f32) {
    unsafe {
        let x = Global::new(x, 32 * 8);
        let y = GlobalMut::new(y, 128 * 16);
        let t = thread::thread_idx_x();
        let barrier = Barrier::at(OBJECTS.view(), 0);
        let tile = cuda_std::shared::dynamic::<u32>(0, 256);
        if t == 0 {
            barrier.init(1);
            async_proxy::fence_shared();
        }
        thread::sync_threads();
        if t == 0 {
            barrier.arrive_expect(1024);
            copy_bulk(tile.addr(0), x, 0, 1024, barrier);
        }
        barrier.wait(0);
        let a = [[pack_f16x2(1.0, 1.0); 4]; 7];
        let columns = MatrixDescriptor::new(unit(tile.addr(0)), 32);
        let d = wgmma::m64n32_f16_7(&a, &[columns; 7]);
        for (i, &value) in d.iter().enumerate() {
            y.store(16 * t as usize + i, value);
        }
    }
}

#[test]
fn what_bulk_copies_write_needs_no_proxy_fence() {
    let device = Device::new();
    let x = upload(&device, &[pack_f16x2(1.0, 1.0); 256]);
    let y = device.alloc(4 * 128 * 16).unwrap();
    let launch = cuda_std::emulator::Launch {
        shared_bytes: 1024,
        ..shape(1, 128)
    };
    run_clean::<copy_and_multiply>(&device, &launch, (x.ptr(), y.ptr()));
    assert_eq!(download::<f32>(&y), vec![7.0 * 16.0; 128 * 16]);
}
