//! Data that blocks of a cluster send each other: asynchronous stores and remote arrivals.

use crate::support::{download, faults, run_clean, run_faulty, shape};
use cuda_std::emulator::Device;
use cuda_std::mbarrier::Barrier;
use cuda_std::prelude::*;
use cuda_std::{cluster, thread};

shared_array! {
    static MAILBOX: [f32; 64];
    static SIGNALS: [u64; 2];
    static HANDED_OVER: [u32; 32];
}

/// Threads of a block.
const THREADS: u32 = 32;

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// The receiver does not wait.
    NoWait,
    /// The receiver waits with the scope of its block.
    NarrowWait,
    /// The receiver expects too few bytes.
    FewBytes,
    /// The receiver expects too many bytes.
    ManyBytes,
    /// The barriers are not visible to the other block.
    NoSync,
    /// One barrier serves all rounds.
    OneBarrier,
    /// One mailbox serves all rounds.
    OneMailbox,
    /// The receiver does not wait for the last round's data.
    EndsEarly,
}

/// Two blocks exchange a sum in each of three rounds: each sends two numbers for each of 8 threads.
#[kernel(max_threads = 32, cluster_blocks = 2)]
unsafe fn exchange(y: *mut f32, bug: Bug) {
    const SENDERS: u32 = 8;
    const ROUNDS: u32 = 3;
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let (mailbox, signals) = (MAILBOX.view(), SIGNALS.view());
        if t == 0 {
            Barrier::at(signals, 0).init(1);
            Barrier::at(signals, 1).init(1);
            cluster::fence_barriers();
        }
        if bug == Bug::NoSync {
            thread::sync_threads();
        } else {
            cluster::sync();
        }
        let mut sum = 0.0;
        for round in 0..ROUNDS {
            let (signal, phase) = if bug == Bug::OneBarrier {
                (0, round & 1)
            } else {
                (round & 1, round >> 1 & 1)
            };
            let place = if bug == Bug::OneMailbox { 0 } else { round & 1 };
            let arrived = Barrier::at(signals, signal);
            if t == 0 {
                arrived.arrive_expect(match bug {
                    Bug::FewBytes => 56,
                    Bug::ManyBytes => 72,
                    _ => 64,
                });
            }
            if t < SENDERS {
                let at = (SENDERS * place + t) * 2;
                let value = (100 * rank + 10 * round + t) as f32;
                cluster::store_async(mailbox.addr(at), arrived, 1 - rank, [value, 0.5]);
                let received = bug != Bug::EndsEarly || round + 1 < ROUNDS;
                match bug {
                    Bug::NoWait => {}
                    Bug::NarrowWait => arrived.wait(phase),
                    _ if received => cluster::wait(arrived, phase),
                    _ => {}
                }
                if received {
                    sum += mailbox.load(at) + mailbox.load(at + 1);
                }
            }
            thread::sync_threads();
        }
        if t < SENDERS {
            GlobalMut::new(y, 16).store((SENDERS * rank + t) as usize, sum);
        }
    }
}

#[test]
fn asynchronous_stores_bring_values_and_bytes() {
    let device = Device::new();
    let y = device.alloc(4 * 16).unwrap();
    run_clean::<exchange>(&device, &shape(2, THREADS), (y.ptr(), Bug::None));
    let expected: Vec<f32> = (0..16)
        .map(|i| (300 * (1 - i / 8) + 30 + 3 * (i % 8)) as f32 + 1.5)
        .collect();
    assert_eq!(download::<f32>(&y), expected);
}

#[test]
fn mistakes_around_asynchronous_stores_are_reported() {
    let device = Device::new();
    let y = device.alloc(4 * 16).unwrap();
    let fault = |bug| run_faulty::<exchange>(&device, &shape(2, THREADS), (y.ptr(), bug));
    faults! {
        fault(Bug::NoWait) => Race | InFlight | Uninitialized;
        fault(Bug::NarrowWait) => Race;
        // The last bytes arrive in the phase after the intended one.
        fault(Bug::FewBytes) => Barrier | Deadlock | InFlight;
        fault(Bug::ManyBytes) => Deadlock;
        fault(Bug::NoSync) => BlockNotBegun;
        fault(Bug::OneBarrier) => Barrier, "not ordered after a wait";
        fault(Bug::OneMailbox) => Race | InFlight;
        fault(Bug::EndsEarly) => BlockEnded(what: "st.async");
    }
}

/// Block 1 fills a buffer of block 0 twice. A remote arrival of block 0 signals that the buffer is free.
#[kernel(max_threads = 32, cluster_blocks = 2)]
unsafe fn hand_over(y: *mut u32, told: bool) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let (numbers, signals) = (HANDED_OVER.view(), SIGNALS.view());
        let (full, empty) = (Barrier::at(signals, 0), Barrier::at(signals, 1));
        if t == 0 {
            full.init(THREADS);
            empty.init(THREADS);
            cluster::fence_barriers();
        }
        cluster::sync();
        if rank == 1 {
            for round in 0..2 {
                if told && round > 0 {
                    cluster::wait(empty, round - 1);
                }
                cluster::store(numbers, t, 0, 10 * round + t);
                cluster::arrive_at(full, 0);
            }
        } else {
            let mut sum = 0;
            for round in 0..2 {
                cluster::wait(full, round);
                sum += numbers.load(31 - t);
                if round == 0 {
                    cluster::arrive_at(empty, 1);
                }
            }
            GlobalMut::new(y, 32).store(t as usize, sum);
        }
        cluster::sync();
    }
}

#[test]
fn remote_arrivals_hand_a_buffer_over_and_back() {
    let device = Device::new();
    let y = device.alloc(4 * 32).unwrap();
    run_clean::<hand_over>(&device, &shape(2, THREADS), (y.ptr(), true));
    let expected: Vec<u32> = (0..32).map(|t| 10 + 2 * (31 - t)).collect();
    assert_eq!(download::<u32>(&y), expected);
    // Writing without the signal is a race, or the phase is over before a thread waits for it.
    faults! {
        run_faulty::<hand_over>(&device, &shape(2, THREADS), (y.ptr(), false))
            => Race | Barrier | Deadlock;
    }
}
