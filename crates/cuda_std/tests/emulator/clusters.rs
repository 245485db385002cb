//! Clusters: their barrier and remote shared memory.

use crate::support::{download, faults, run_clean, run_faulty, run_racy, shape, upload};
use cuda_std::emulator::{Device, Launch};
use cuda_std::prelude::*;
use cuda_std::{cluster, thread};

shared_array! {
    static NUMBERS: [u32; 32];
}

/// Threads of a block.
const THREADS: u32 = 32;

/// Each of four blocks sends 8 of its numbers to each block, and then writes the received numbers to `y`.
#[kernel(max_threads = 32, cluster_blocks = 4)]
unsafe fn transpose(y: *mut u32, barrier: bool) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        assert_eq!(cluster::blocks(), 4);
        let numbers = NUMBERS.view();
        cluster::sync();
        cluster::store(numbers, 8 * rank + t % 8, t / 8, thread::index_1d());
        if barrier {
            cluster::sync();
        }
        let y = GlobalMut::new(y, 256);
        y.store(thread::index_1d() as usize, numbers.load(t));
    }
}

#[test]
fn blocks_write_to_each_other_and_meet() {
    let device = Device::new();
    let y = device.alloc(4 * 256).unwrap();
    run_clean::<transpose>(&device, &shape(8, THREADS), (y.ptr(), true));
    let expected: Vec<u32> = (0..256)
        .map(|i| {
            let (cluster, rank, t) = (i / 128, i / 32 % 4, i % 32);
            128 * cluster + 32 * (t / 8) + 8 * rank + t % 8
        })
        .collect();
    assert_eq!(download::<u32>(&y), expected);
}

#[test]
fn transposing_needs_the_barrier_and_whole_clusters_of_the_kernels_size() {
    let device = Device::new();
    let y = device.alloc(4 * 256).unwrap();
    let fault =
        |launch: &Launch, barrier| run_faulty::<transpose>(&device, launch, (y.ptr(), barrier));
    let mut in_twos = shape(8, THREADS);
    in_twos.cluster_blocks = 2;
    faults! {
        fault(&shape(8, THREADS), false) => Uninitialized | Race | BlockEnded;
        fault(&shape(6, THREADS), true)
            => Launch, "grid x is 6, no multiple of the kernel's cluster_blocks 4";
        fault(&in_twos, true) => Launch;
    }
}

/// Two blocks add up each other's numbers with remote loads.
#[kernel(max_threads = 32, cluster_blocks = 2)]
unsafe fn peek(y: *mut u32, before: bool, after: bool) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let numbers = NUMBERS.view();
        numbers.store(t, 100 * rank + t);
        if before {
            cluster::sync();
        } else {
            thread::sync_threads();
        }
        let theirs = cluster::load(numbers, t, 1 - rank);
        if after {
            cluster::sync();
        }
        GlobalMut::new(y, 64).store(thread::index_1d() as usize, theirs);
    }
}

#[test]
fn remote_loads_see_what_was_written_before_the_clusters_barrier() {
    let device = Device::new();
    let y = device.alloc(4 * 64).unwrap();
    run_clean::<peek>(&device, &shape(2, THREADS), (y.ptr(), true, true));
    let expected: Vec<u32> = (0..64).map(|i| 100 * (1 - i / 32) + i % 32).collect();
    assert_eq!(download::<u32>(&y), expected);
}

#[test]
fn a_block_that_may_not_have_begun_or_may_have_ended_is_not_reached_for() {
    let device = Device::new();
    let y = device.alloc(4 * 64).unwrap();
    let fault =
        |before, after| run_faulty::<peek>(&device, &shape(2, THREADS), (y.ptr(), before, after));
    let ended = fault(true, false);
    faults! {
        fault(false, true) => BlockNotBegun(what: "remote load");
        ended => BlockEnded(what: "remote load");
    }
    assert!(
        ended.location.is_some() && ended.thread.is_some(),
        "{ended}"
    );
}

/// Both blocks write one word of block 0.
#[kernel(max_threads = 32, cluster_blocks = 2)]
unsafe fn collide(ordered: bool) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let numbers = NUMBERS.view();
        if !ordered {
            cluster::sync();
        }
        if rank == 0 && t == 5 {
            numbers.store(6, 1);
        }
        if ordered {
            cluster::sync();
        }
        if rank == 1 && t == 4 {
            cluster::store(numbers, 6, 0, 2);
        }
        cluster::sync();
        if rank == 0 {
            assert_eq!(numbers.load(6), 2);
        }
    }
}

#[test]
fn writes_of_two_blocks_to_one_word_race_unless_ordered() {
    let device = Device::new();
    run_clean::<collide>(&device, &shape(2, THREADS), (true,));
    faults! { run_racy::<collide>(&device, &shape(2, THREADS), (false,)) => "NUMBERS"; }
}

/// The cluster's barrier with separate arrival and wait.
#[kernel(max_threads = 32, cluster_blocks = 2)]
unsafe fn halves(how: u32) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let numbers = NUMBERS.view();
        if how < 2 {
            cluster::sync();
        }
        match how {
            // Right: what is written before the arrival is read after the wait.
            0 => {
                cluster::store(numbers, t, 1 - rank, t);
                cluster::arrive();
                cluster::wait_all();
                assert_eq!(numbers.load(31 - t), 31 - t);
            }
            // Written after the arrival, read after the wait.
            1 => {
                cluster::arrive();
                cluster::store(numbers, t, 1 - rank, t);
                cluster::wait_all();
                let _ = numbers.load(31 - t);
                cluster::sync();
            }
            2 => cluster::wait_all(),
            3 => {
                cluster::arrive();
                cluster::arrive();
            }
            // Half of a block waits at another barrier.
            4 => {
                if rank == 1 && t < 16 {
                    thread::sync_threads();
                }
                cluster::sync();
            }
            // The barrier does not wait for a thread that has ended.
            5 => {
                if rank == 1 && t == 0 {
                    return;
                }
                cluster::sync();
            }
            6 => cluster::store(numbers, t, 2, 0),
            _ => cluster::store(numbers, 32, 1 - rank, 0),
        }
    }
}

#[test]
fn the_clusters_barrier_has_rules() {
    let device = Device::new();
    for right in [0, 5] {
        run_clean::<halves>(&device, &shape(2, THREADS), (right,));
    }
    let fault = |how| run_faulty::<halves>(&device, &shape(2, THREADS), (how,));
    faults! {
        fault(1) => Race | Uninitialized;
        fault(2) => Barrier;
        fault(3) => Barrier;
        fault(4) => Deadlock, "the barrier of the cluster has 48 of 64",
            "block 1 of the cluster: 16 thread(s) (0..=15) wait for sync_threads";
        fault(6) => Argument;
        fault(7) => OutOfBounds;
    }
}

/// Dynamic shared memory and block barriers are separate for each block.
#[kernel(max_threads = 40, cluster_blocks = 2)]
unsafe fn own_memory(x: *const u32, y: *mut u32, barrier: bool) {
    unsafe {
        let (i, t) = (thread::index_1d() as usize, thread::thread_idx_x());
        let (x, y) = (Global::new(x, 160), GlobalMut::new(y, 160));
        let mine = cuda_std::shared::dynamic::<u32>(0, 40);
        mine.store(t, x.load(i));
        if barrier {
            thread::sync_threads();
        }
        y.store(i, mine.load(39 - t));
    }
}

#[test]
fn each_block_of_a_cluster_has_its_own_shared_memory_and_barriers() {
    let device = Device::new();
    let values: Vec<u32> = (0..160).collect();
    let (x, y) = (upload(&device, &values), device.alloc(4 * 160).unwrap());
    let launch = Launch {
        shared_bytes: 160,
        ..shape(4, 40)
    };
    run_clean::<own_memory>(&device, &launch, (x.ptr(), y.ptr(), true));
    let expected: Vec<u32> = (0..160).map(|i| i / 40 * 40 + 39 - i % 40).collect();
    assert_eq!(download::<u32>(&y), expected);
    faults! {
        run_faulty::<own_memory>(&device, &launch, (x.ptr(), y.ptr(), false)) => Race | Uninitialized;
    }
}

/// Each thread writes four numbers to the next block of its cluster, which writes them to `y` behind the
/// cluster's barrier.
#[kernel(max_threads = 8)]
unsafe fn pass_on(y: *mut u32, first: u32, barrier: bool) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let numbers = cuda_std::shared::dynamic::<u32>(0, 32 + first % 4);
        let to = (rank + 1) % cluster::blocks();
        let number = 4 * thread::index_1d();
        cluster::sync();
        cluster::store_vec(numbers, first + 4 * t, to, [0, 1, 2, 3].map(|i| number + i));
        if barrier {
            cluster::sync();
        }
        let y = GlobalMut::new(y, 128);
        let [a, b, c, d] = numbers.load_vec::<4>(4 * t);
        y.store_vec(number as usize, [a, b, c, d]);
    }
}

#[test]
fn a_launch_says_how_many_blocks_make_a_cluster_where_the_kernel_does_not() {
    let device = Device::new();
    let y = device.alloc(4 * 128).unwrap();
    let in_clusters = |cluster_blocks| Launch {
        cluster_blocks,
        shared_bytes: 144,
        ..shape(4, 8)
    };
    for blocks in [1, 2, 4] {
        run_clean::<pass_on>(&device, &in_clusters(blocks), (y.ptr(), 0, true));
        let expected: Vec<u32> = (0..128)
            .map(|i| {
                let (block, of_block) = (i / 32, i % 32);
                let from = block / blocks * blocks + (block + blocks - 1) % blocks;
                32 * from + of_block
            })
            .collect();
        assert_eq!(download::<u32>(&y), expected, "clusters of {blocks}");
    }
    let fault = |blocks, first, barrier| {
        run_faulty::<pass_on>(&device, &in_clusters(blocks), (y.ptr(), first, barrier))
    };
    faults! {
        fault(2, 0, false) => Uninitialized | Race | BlockEnded;
        fault(2, 4, true) => OutOfBounds;
        fault(2, 2, true) => Misaligned;
        fault(3, 0, true) => Launch;
        fault(16, 0, true) => Launch;
    }
}
