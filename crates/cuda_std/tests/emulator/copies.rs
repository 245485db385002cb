//! Asynchronous copies.

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::cp_async::{
    commit_group, copy4, copy4_zfill, copy8, copy16, copy16_zfill, wait_all, wait_group,
};
use cuda_std::emulator::{Device, FaultKind};
use cuda_std::prelude::*;

shared_array! {
    static RING: [f32; 256];
}

/// A pipeline of two stages: one is filled while the other is summed. With `lax`, a wait leaves two groups
/// in flight instead of one. `barrier` tells whether a barrier behind the wait covers the copies of other
/// threads.
#[kernel]
unsafe fn pipeline(x: *const f32, y: *mut f32, lax: bool, barrier: bool) {
    const STEPS: usize = 5;
    unsafe {
        let x = Global::new(x, 128 * STEPS);
        let y = GlobalMut::new(y, 32);
        let ring = RING.view();
        let t = thread::thread_idx_x();
        let fill = |step: usize| {
            copy16(
                ring.addr(128 * (step as u32 % 2) + 4 * t),
                x,
                128 * step + 4 * t as usize,
            );
            commit_group();
        };
        fill(0);
        let mut sum = 0.0;
        for step in 0..STEPS {
            if step + 1 < STEPS {
                fill(step + 1);
                if lax {
                    wait_group::<2>()
                } else {
                    wait_group::<1>()
                }
            } else {
                wait_group::<0>();
            }
            if barrier {
                thread::sync_threads();
            }
            for i in 0..4 {
                sum += ring.load(128 * (step as u32 % 2) + (4 * t + 17 * i) % 128);
            }
            thread::sync_threads();
        }
        y.store(t as usize, sum);
    }
}

#[test]
fn a_pipeline_needs_its_waits_and_barriers() {
    let device = Device::new();
    let (x, y) = (upload(&device, &[1.0_f32; 640]), device.alloc(128).unwrap());
    let arguments = |lax, barrier| (x.ptr::<f32>().cast_const(), y.ptr(), lax, barrier);
    let stats = run_clean::<pipeline>(&device, &shape(1, 32), arguments(false, true));
    assert_eq!(download::<f32>(&y), [20.0; 32]);
    assert_eq!(stats.async_copies, 160);
    let fault =
        |lax, barrier| run_faulty::<pipeline>(&device, &shape(1, 32), arguments(lax, barrier));
    let early = fault(true, true);
    let FaultKind::InFlight { earlier, .. } = &early.kind else {
        panic!("{early}")
    };
    assert!(earlier.location.unwrap().file().ends_with("copies.rs"));
    // The order decides whether the other thread has waited or has yet to start the copy.
    faults! { fault(false, false) => InFlight | Race | Uninitialized; }
}

/// One thread, one copy, and one mistake.
#[kernel]
unsafe fn copy_once(x: *mut f32, y: *mut f32, mistake: u32) {
    unsafe {
        let (source, ring) = (Global::new(x, 64), RING.view());
        let target = ring.addr(u32::from(mistake == 1));
        copy16(target, source, if mistake == 2 { 2 } else { 4 });
        match mistake {
            3 => ring.store(3, 0.0),
            4 => GlobalMut::new(x, 64).store(5, 9.0),
            5 => copy4(ring.addr(2), source, 0),
            6 => copy16(ring.addr(8), source, 64),
            7 => copy8(cuda_std::shared::SharedAddr(0), source, 0),
            8 => copy16_zfill(ring.addr(8), source, 0, 17),
            _ => {}
        }
        wait_all();
        GlobalMut::new(y, 4).store_vec(0, ring.load_vec::<4>(0));
    }
}

#[test]
fn misused_copies_are_reported() {
    let device = Device::new();
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let y = device.alloc(16).unwrap();
    let fault = |mistake| {
        let x = upload(&device, &values);
        run_faulty::<copy_once>(&device, &shape(1, 1), (x.ptr(), y.ptr(), mistake))
    };
    let x = upload(&device, &values);
    run_clean::<copy_once>(&device, &shape(1, 1), (x.ptr(), y.ptr(), 0));
    assert_eq!(download::<f32>(&y), [4.0, 5.0, 6.0, 7.0]);
    faults! {
        fault(1) => Misaligned;
        fault(2) => Misaligned;
        fault(3) => InFlight;
        fault(4) => InFlight;
        fault(5) => InFlight;
        fault(6) => OutOfBounds;
        fault(7) => Argument;
        fault(8) => Argument;
    }
}

/// Zero filling: copies of all bytes, of a part, and of none, also with a source index outside of the view.
#[kernel]
unsafe fn fill(x: *const f32, y: *mut f32) {
    unsafe {
        let (x, y, ring) = (Global::new(x, 6), GlobalMut::new(y, 16), RING.view());
        copy16_zfill(ring.addr(0), x, 0, 16);
        copy16_zfill(ring.addr(4), x, 4, 8);
        copy16_zfill(ring.addr(8), x, 1000, 0);
        copy4_zfill(ring.addr(12), x, 5, 4);
        copy4_zfill(ring.addr(13), x, 6, 0);
        copy8(ring.addr(14), x, 2);
        wait_all();
        for i in 0..16 {
            y.store(i, ring.load(i as u32));
        }
    }
}

#[test]
fn zero_filling_reads_only_what_is_valid() {
    let device = Device::new();
    let x = upload(&device, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = device.alloc(64).unwrap();
    run_clean::<fill>(&device, &shape(1, 1), (x.ptr(), y.ptr()));
    let expected = [
        1., 2., 3., 4., 5., 6., 0., 0., 0., 0., 0., 0., 6., 0., 3., 4.,
    ];
    assert_eq!(download::<f32>(&y), expected);
}
