//! Barriers that never complete, and warp operations that do not complete.

use crate::support::{download, faults, run_clean, run_faulty, shape};
use cuda_std::emulator::Device;
use cuda_std::prelude::*;
use cuda_std::{barrier, warp};

#[derive(Clone, Copy)]
#[repr(u32)]
enum Bug {
    None,
    EarlyExit,
    OneBranch,
    TwoCalls,
}

/// A barrier, with one of the mistakes that keep threads from meeting at it.
#[kernel]
unsafe fn meet(bug: Bug) {
    let t = thread::thread_idx_x();
    match bug {
        Bug::None => thread::sync_threads(),
        Bug::EarlyExit => {
            if t == 5 {
                return;
            }
            thread::sync_threads();
        }
        Bug::OneBranch => {
            if t < 32 {
                thread::sync_threads();
            }
            thread::sync_threads();
        }
        #[expect(
            clippy::if_same_then_else,
            reason = "the same line of code at two places is the bug"
        )]
        Bug::TwoCalls => {
            if t < 32 {
                thread::sync_threads();
            } else {
                thread::sync_threads();
            }
        }
    }
}

#[test]
fn a_barrier_opens_to_all_threads_at_one_call() {
    let stats = run_clean::<meet>(&Device::new(), &shape(3, 64), (Bug::None,));
    assert_eq!(stats.barriers, 3);
    let fault = |bug| run_faulty::<meet>(&Device::new(), &shape(1, 64), (bug,));
    let (exited, wait) = (
        "1 thread(s) (5) have exited",
        "63 thread(s) (0..=4, 6..=63) wait",
    );
    faults! {
        fault(Bug::EarlyExit) => Deadlock, "sync_threads never completes", exited, wait;
        fault(Bug::OneBranch) => Barrier;
        fault(Bug::TwoCalls) => Barrier;
    }
}

/// Counts and combines predicates at a barrier.
#[kernel]
unsafe fn predicates(y: *mut u32) {
    unsafe {
        let (y, t) = (GlobalMut::new(y, 4 * 96), thread::thread_idx_x());
        let results = [
            thread::sync_threads_count(t % 3),
            thread::sync_threads_and(u32::from(t < 95)),
            thread::sync_threads_and(7),
            thread::sync_threads_or(u32::from(t == 95)),
        ];
        y.store_vec(4 * t as usize, results);
    }
}

#[test]
fn barriers_reduce_predicates_for_everyone() {
    let device = Device::new();
    let y = device.alloc(4 * 4 * 96).unwrap();
    run_clean::<predicates>(&device, &shape(1, 96), (y.ptr(),));
    assert_eq!(download::<u32>(&y), [64, 0, 1, 1].repeat(96));
}

/// Named barriers: each warp syncs at barrier `id`, with `first` or `second` as its number of threads.
#[kernel]
unsafe fn named(id: u32, first: u32, second: u32) {
    barrier::sync(
        id,
        if thread::thread_idx_x() < 32 {
            first
        } else {
            second
        },
    );
}

#[test]
fn named_barriers_refuse_wrong_numbers_and_disagreement() {
    let device = Device::new();
    for right in [(15, 64, 64), (1, 32, 32)] {
        run_clean::<named>(&device, &shape(1, 64), right);
    }
    for wrong in [
        (16, 64, 64),
        (1, 48, 48),
        (1, 96, 96),
        (1, 64, 32),
        (1, 0, 0),
    ] {
        faults! { run_faulty::<named>(&device, &shape(1, 64), wrong) => Barrier; }
    }
}

/// Halves of two warps add up to the barrier's number of threads, but the device counts whole warps.
#[kernel]
unsafe fn half_warps() {
    if thread::thread_idx_x() % 32 < 16 {
        barrier::sync(3, 32);
    }
    thread::sync_threads();
}

/// Each of two warps waits for the other at a different barrier.
#[kernel]
unsafe fn crossed() {
    let warp = thread::thread_idx_x() / 32;
    barrier::sync(1 + warp, 64);
    barrier::sync(2 - warp, 64);
}

#[test]
fn named_barriers_that_never_open_are_deadlocks_that_name_who_waits() {
    let device = Device::new();
    faults! {
        run_faulty::<half_warps>(&device, &shape(1, 64), ()) => Deadlock, "lanes 0x0000ffff of warp 0";
        run_faulty::<crossed>(&device, &shape(1, 64), ())
            => Deadlock, "barrier 1 has 32 of 64", "barrier 2 has 32 of 64";
    }
}

/// Operations of a full warp that some lanes miss.
#[kernel]
unsafe fn lanes(bug: u32) {
    unsafe {
        let t = thread::thread_idx_x();
        match bug {
            // The calling lane is not in its own mask.
            1 => warp::sync_warp(0xffff),
            // A lane of the mask exits.
            2 if t == 9 => {}
            2 => {
                warp::warp_vote_ballot(u32::MAX, true);
            }
            // Lanes call different operations.
            3 if t & 1 == 0 => warp::sync_warp(u32::MAX),
            3 => {
                warp::warp_vote_any(u32::MAX, true);
            }
            // Lanes give different masks.
            4 => warp::sync_warp(if t < 16 { u32::MAX } else { 0xffff_0000 }),
            // One half waits at a barrier.
            5 if t < 16 => thread::sync_threads(),
            5 => warp::sync_warp(u32::MAX),
            // A shuffle from a lane that the mask lacks.
            6 if t < 16 => {
                warp::warp_shuffle_idx(0xffff, t, 20, 32);
            }
            // A width that is not a power of two.
            7 => {
                warp::warp_shuffle_idx(u32::MAX, t, 0, 24);
            }
            _ => warp::sync_warp(u32::MAX),
        }
    }
}

#[test]
fn warp_operations_with_missing_or_disagreeing_lanes_are_reported() {
    let fault = |bug| run_faulty::<lanes>(&Device::new(), &shape(1, 32), (bug,));
    run_clean::<lanes>(&Device::new(), &shape(2, 64), (0,));
    for bug in 1..=6 {
        faults! { fault(bug) => Warp; }
    }
    faults! {
        fault(2) => "lane 9 has exited";
        fault(5) => "waits for sync_threads";
        fault(7) => Argument;
        // Lanes that do not exist in a small block are missing.
        run_faulty::<lanes>(&Device::new(), &shape(1, 48), (0,)) => "does not exist";
    }
}
