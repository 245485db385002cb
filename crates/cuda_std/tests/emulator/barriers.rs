//! Barriers that do not open, and warp operations that do not complete.

use crate::support::{assert_kind, download, run_clean, run_faulty, shape};
use cuda_std::emulator::{Device, Fault, FaultKind};
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

/// A barrier, with one of the ways not to reach it together.
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
fn a_barrier_that_all_threads_reach_opens() {
    let stats = run_clean::<meet>(&Device::new(), &shape(3, 64), (Bug::None,));
    assert_eq!(stats.barriers, 3);
}

#[test]
fn a_thread_that_exits_before_the_barrier_is_named() {
    let fault = run_faulty::<meet>(&Device::new(), &shape(1, 64), (Bug::EarlyExit,));
    let FaultKind::Deadlock { what, detail } = &fault.kind else {
        panic!("{fault}")
    };
    assert_eq!(what, "sync_threads");
    assert!(detail.contains("1 thread(s) (5) have exited"), "{detail}");
    assert!(
        detail.contains("63 thread(s) (0..=4, 6..=63) wait"),
        "{detail}"
    );
}

#[test]
fn threads_that_meet_from_different_calls_are_reported() {
    for bug in [Bug::OneBranch, Bug::TwoCalls] {
        let fault = run_faulty::<meet>(&Device::new(), &shape(1, 64), (bug,));
        assert_kind!(fault, FaultKind::Barrier(_));
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

/// Named barriers as the arguments say: each warp syncs with `id`, `threads` of its own.
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
    let refused =
        |id, first, second| run_faulty::<named>(&Device::new(), &shape(1, 64), (id, first, second));
    run_clean::<named>(&Device::new(), &shape(1, 64), (15, 64, 64));
    run_clean::<named>(&Device::new(), &shape(1, 64), (1, 32, 32));
    for fault in [
        refused(16, 64, 64),
        refused(1, 48, 48),
        refused(1, 96, 96),
        refused(1, 64, 32),
        refused(1, 0, 0),
    ] {
        assert_kind!(fault, FaultKind::Barrier(_));
    }
}

/// Halves of two warps make up the number, which the device counts in whole warps.
#[kernel]
unsafe fn half_warps() {
    if thread::thread_idx_x() % 32 < 16 {
        barrier::sync(3, 32);
    }
    thread::sync_threads();
}

#[test]
fn a_warp_comes_to_a_named_barrier_as_a_whole() {
    let fault = run_faulty::<half_warps>(&Device::new(), &shape(1, 64), ());
    let FaultKind::Deadlock { detail, .. } = &fault.kind else {
        panic!("{fault}")
    };
    assert!(detail.contains("lanes 0x0000ffff of warp 0"), "{detail}");
}

/// Everyone waits for the other half.
#[kernel]
unsafe fn crossed() {
    let warp = thread::thread_idx_x() / 32;
    barrier::sync(1 + warp, 64);
    barrier::sync(2 - warp, 64);
}

#[test]
fn crossed_barriers_are_a_deadlock_that_names_both() {
    let fault = run_faulty::<crossed>(&Device::new(), &shape(1, 64), ());
    assert_kind!(fault, FaultKind::Deadlock { .. });
    let text = fault.to_string();
    assert!(
        text.contains("barrier 1 has 32 of 64") && text.contains("barrier 2 has 32 of 64"),
        "{text}"
    );
}

/// A full-warp operation that some lanes miss.
#[kernel]
unsafe fn lanes(bug: u32) {
    unsafe {
        let t = thread::thread_idx_x();
        match bug {
            // The caller's lane is not in its mask.
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
            // A width that is no power of two.
            7 => {
                warp::warp_shuffle_idx(u32::MAX, t, 0, 24);
            }
            _ => warp::sync_warp(u32::MAX),
        }
    }
}

#[test]
fn warp_operations_with_missing_or_disagreeing_lanes_are_reported() {
    let fault = |bug| -> Fault { run_faulty::<lanes>(&Device::new(), &shape(1, 32), (bug,)) };
    run_clean::<lanes>(&Device::new(), &shape(2, 64), (0,));
    for bug in 1..=6 {
        let fault = fault(bug);
        assert!(
            matches!(fault.kind, FaultKind::Warp { .. }),
            "bug {bug}: {fault}"
        );
    }
    assert!(fault(2).to_string().contains("lane 9 has exited"));
    assert!(fault(5).to_string().contains("waits for sync_threads"));
    assert!(matches!(fault(7).kind, FaultKind::Argument(_)));
}

#[test]
fn lanes_that_a_small_block_lacks_are_missing() {
    let fault = run_faulty::<lanes>(&Device::new(), &shape(1, 48), (0,));
    assert!(fault.to_string().contains("does not exist"), "{fault}");
}
