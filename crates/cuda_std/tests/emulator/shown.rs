//! Visibility and lifetime: barriers must be visible to other blocks and to the asynchronous proxy before
//! their use, accessed blocks must have started, and no copy may be in flight to a block that ends.

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::emulator::Device;
use cuda_std::mbarrier::{Barrier, copy_bulk};
use cuda_std::prelude::*;
use cuda_std::{async_proxy, cluster};

shared_array! {
    static SIGNAL: [u64; 1];
    static BROUGHT: [u32; 32];
}

const THREADS: u32 = 64;

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Fence {
    Right,
    Missing,
    BeforeInit,
    ByAnother,
    AfterTheMeeting,
    /// The fence for the asynchronous proxy, for copies to the same block.
    Proxy,
    /// The proxy fence by the copying thread, after the meeting.
    ProxyByCopier,
    ProxyAfterTheMeeting,
}

/// Initialises the block's barrier, and lets all threads meet by calling `all`.
#[track_caller]
fn prepare(fence: Fence, arrivals: u32, all: impl Fn()) -> Barrier {
    let t = thread::thread_idx_x();
    let barrier = Barrier::at(SIGNAL.view(), 0);
    if fence == Fence::BeforeInit && t == 0 {
        cluster::fence_barriers();
    }
    if t == 0 {
        unsafe { barrier.init(arrivals) };
    }
    match fence {
        Fence::Right if t == 0 => cluster::fence_barriers(),
        Fence::Proxy if t == 0 => async_proxy::fence_shared(),
        Fence::ByAnother if t == 1 => cluster::fence_barriers(),
        _ => {}
    }
    all();
    match fence {
        Fence::AfterTheMeeting if t == 0 => cluster::fence_barriers(),
        Fence::ProxyAfterTheMeeting if t == 0 => async_proxy::fence_shared(),
        Fence::ProxyByCopier if t == 32 => async_proxy::fence_shared(),
        _ => {}
    }
    barrier
}

/// Each of two blocks waits for an arrival from the other.
#[kernel(max_threads = THREADS, cluster_blocks = 2)]
unsafe fn greet(fence: Fence) {
    unsafe {
        let barrier = prepare(fence, 1, cluster::sync);
        if thread::thread_idx_x() == 32 {
            cluster::arrive_at(barrier, 1 - cluster::block_rank());
        }
        cluster::wait(barrier, 0);
    }
}

#[test]
fn barriers_that_another_block_arrives_at_are_shown_to_it() {
    let device = Device::new();
    run_clean::<greet>(&device, &shape(4, THREADS), (Fence::Right,));
    for fence in [
        Fence::Missing,
        Fence::BeforeInit,
        Fence::ByAnother,
        Fence::AfterTheMeeting,
        Fence::Proxy,
    ] {
        let fault = run_faulty::<greet>(&device, &shape(2, THREADS), (fence,));
        faults! { fault => Barrier, "showed it to this block"; }
    }
}

/// Thread 32 copies data that all threads read.
#[kernel(max_threads = THREADS)]
unsafe fn bring(x: *const u32, y: *mut u32, fence: Fence, waits: bool) {
    unsafe {
        let t = thread::thread_idx_x();
        let barrier = prepare(fence, 1, thread::sync_threads);
        let (x, y, words) = (Global::new(x, 32), GlobalMut::new(y, 64), BROUGHT.view());
        if t == 32 {
            barrier.arrive_expect(128);
            copy_bulk(words.addr(0), x, 0, 128, barrier);
        }
        if waits {
            barrier.wait(0);
            y.store(t as usize, words.load(t % 32));
        }
    }
}

#[test]
fn barriers_that_count_bytes_are_shown_to_the_asynchronous_proxy() {
    let device = Device::new();
    let values: Vec<u32> = (0..32).collect();
    let (x, y) = (upload(&device, &values), device.alloc(4 * 64).unwrap());
    for fence in [Fence::Right, Fence::Proxy, Fence::ProxyByCopier] {
        run_clean::<bring>(&device, &shape(1, THREADS), (x.ptr(), y.ptr(), fence, true));
        assert_eq!(download::<u32>(&y)[32..], values);
    }
    let fault = |fence, waits| {
        run_faulty::<bring>(
            &device,
            &shape(1, THREADS),
            (x.ptr(), y.ptr(), fence, waits),
        )
    };
    for fence in [
        Fence::Missing,
        Fence::BeforeInit,
        Fence::ByAnother,
        Fence::AfterTheMeeting,
        Fence::ProxyAfterTheMeeting,
    ] {
        let fault = fault(fence, true);
        faults! { fault => Barrier, "to the asynchronous proxy"; }
    }
    // A block must not end before the copies to it complete.
    faults! { fault(Fence::Right, false) => InFlight(what: "end of the block"), "BROUGHT"; }
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Send {
    /// The send comes after a meeting, and the receiver waits for the bytes.
    Right,
    /// The receiver takes part in the cluster's barrier, but does not wait for the bytes.
    NotAwaited,
    /// There is no meeting before the send.
    TooEarly,
    /// The receiver signals its start by a flag in global memory.
    Flagged,
    /// No fence orders the flag.
    FlaggedWithoutFence,
}

/// Block 1 sends two numbers to block 0.
#[kernel(max_threads = THREADS, cluster_blocks = 2)]
unsafe fn send(flag: *mut u32, y: *mut f32, how: Send) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let flagged = [Send::Flagged, Send::FlaggedWithoutFence].contains(&how);
        let barrier = prepare(Fence::Right, 1, || match how {
            Send::TooEarly => thread::sync_threads(),
            _ if flagged => thread::sync_threads(),
            _ => cluster::sync(),
        });
        let (numbers, flag) = (BROUGHT.view(), GlobalMut::new(flag, 1));
        if rank == 0 && t == 0 {
            barrier.arrive_expect(8);
            if how == Send::Flagged {
                thread::device_fence();
            }
            if flagged {
                flag.atomic_exchange(0, 1);
            }
        }
        if rank == 1 && t == 0 {
            while flagged && flag.atomic_load(0) == 0 {}
            if flagged {
                thread::device_fence();
            }
            cluster::store_async(numbers.addr(0), barrier, 0, [1.0, 2.0]);
        }
        if how == Send::NotAwaited {
            cluster::sync();
        } else if rank == 0 {
            cluster::wait(barrier, 0);
            let y = GlobalMut::new(y, 64);
            y.store(t as usize, f32::from_bits(numbers.load(t % 2)));
        }
    }
}

#[test]
fn what_is_sent_comes_between_a_blocks_start_and_its_end() {
    let device = Device::new();
    let y = device.alloc(4 * 64).unwrap();
    for how in [Send::Right, Send::Flagged] {
        for seed in [None, Some(1), Some(2)] {
            let flag = upload(&device, &[0_u32]);
            let mut launch = shape(2, THREADS);
            launch.seed = seed;
            unsafe { device.launch::<send>(&launch, (flag.ptr(), y.ptr(), how)) }.unwrap();
            assert_eq!(download::<f32>(&y)[..2], [1.0, 2.0]);
        }
    }
    let fault = |how| {
        let flag = upload(&device, &[0_u32]);
        run_faulty::<send>(&device, &shape(2, THREADS), (flag.ptr(), y.ptr(), how))
    };
    faults! {
        fault(Send::NotAwaited) => InFlight(what: "end of the block");
        fault(Send::TooEarly) => BlockNotBegun(what: "st.async", rank: 0);
        fault(Send::FlaggedWithoutFence) => BlockNotBegun(what: "st.async", rank: 0);
    }
}
