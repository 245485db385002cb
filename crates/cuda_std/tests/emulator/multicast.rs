//! Bulk copies to several blocks of a cluster.

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::emulator::Device;
use cuda_std::mbarrier::Barrier;
use cuda_std::prelude::*;
use cuda_std::{async_proxy, cluster};

const BLOCKS: u32 = 2;
const ROUNDS: u32 = 5;
const STAGES: u32 = 2;
/// Words of a stage. Each block multicasts its part to all blocks.
const WORDS: u32 = 64;
const PART: u32 = WORDS / BLOCKS;
/// Threads of the consumer warp; the thread behind them is the producer.
const CONSUMERS: u32 = 32;

shared_array! {
    static STAGE_WORDS: [u32; (STAGES * WORDS) as usize];
    static FULL_AND_EMPTY: [u64; 2 * STAGES as usize];
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// Blocks do not wait for each other before the first copy.
    NoSync,
    /// The consumers wait with the scope of their block.
    NarrowWait,
    /// A stage is released to the block's own producer only.
    GivesBackToItself,
    /// Block 1 announces its own part only.
    FewBytes,
    /// Block 1 announces nothing.
    NothingExpected,
    /// Block 1 ends before the last round.
    EndsEarly,
    /// Only the copy's own block gets the data.
    OwnBlockAlone,
    /// The mask names a block outside of the cluster, or no block.
    ThirdBlock,
    NoBlock,
    /// The destination is not a multiple of 16.
    OddTarget,
    /// The second barrier of a stage was never initialised.
    NoInit,
}

/// Both blocks add up all words of `x`, round after round.
#[kernel(max_threads = 64, cluster_blocks = 2)]
unsafe fn share(x: *const u32, y: *mut u32, bug: Bug) {
    unsafe {
        let (t, rank) = (thread::thread_idx_x(), cluster::block_rank());
        let x = Global::new(x, (ROUNDS * WORDS) as usize);
        let (stages, signals) = (STAGE_WORDS.view(), FULL_AND_EMPTY.view());
        let full = |stage| Barrier::at(signals, stage);
        let empty = |stage| Barrier::at(signals, STAGES + stage);
        if t == 0 {
            for stage in 0..STAGES {
                if bug != Bug::NoInit || stage == 0 || rank == 0 {
                    full(stage).init(1);
                }
                let own = bug == Bug::GivesBackToItself;
                empty(stage).init(if own { 1 } else { BLOCKS });
            }
            cluster::fence_barriers();
            async_proxy::fence_shared();
        }
        if bug == Bug::NoSync {
            thread::sync_threads();
        } else {
            cluster::sync();
        }
        let ends_early = bug == Bug::EndsEarly && rank == 1;
        let rounds = if ends_early { ROUNDS - 1 } else { ROUNDS };
        if t == CONSUMERS {
            for round in 0..rounds {
                let (stage, phase) = (round % STAGES, (round / STAGES) & 1);
                cluster::wait(empty(stage), phase ^ 1);
                match bug {
                    Bug::FewBytes if rank == 1 => full(stage).arrive_expect(4 * PART),
                    Bug::NothingExpected if rank == 1 => full(stage).arrive(),
                    _ => full(stage).arrive_expect(4 * WORDS),
                }
                let blocks = match bug {
                    Bug::OwnBlockAlone => 1 << rank,
                    Bug::ThirdBlock => 0b111,
                    Bug::NoBlock => 0,
                    _ => 0b11,
                };
                let odd = u32::from(bug == Bug::OddTarget);
                cluster::copy_bulk(
                    stages.addr(stage * WORDS + rank * PART + odd),
                    x,
                    (round * WORDS + rank * PART) as usize,
                    4 * PART,
                    full(stage),
                    blocks,
                );
            }
        }
        if t < CONSUMERS {
            let mut sum = 0;
            for round in 0..rounds {
                let (stage, phase) = (round % STAGES, (round / STAGES) & 1);
                if bug == Bug::NarrowWait {
                    full(stage).wait(phase);
                } else {
                    cluster::wait(full(stage), phase);
                }
                sum += stages.load(stage * WORDS + t) + stages.load(stage * WORDS + PART + t);
                warp::sync_warp(u32::MAX);
                let own = bug == Bug::GivesBackToItself;
                if t < BLOCKS && (!own || t == rank) {
                    cluster::arrive_at(empty(stage), t);
                }
            }
            let y = GlobalMut::new(y, (BLOCKS * CONSUMERS) as usize);
            y.store((rank * CONSUMERS + t) as usize, sum);
        }
        if bug != Bug::EndsEarly {
            cluster::sync();
        }
    }
}

#[test]
fn copies_come_to_all_blocks_of_the_mask() {
    let device = Device::new();
    let words: Vec<u32> = (0..ROUNDS * WORDS).map(|i| i * i % 1009).collect();
    let x = upload(&device, &words);
    let y = device.alloc(4 * (BLOCKS * CONSUMERS) as usize).unwrap();
    run_clean::<share>(&device, &shape(BLOCKS, 64), (x.ptr(), y.ptr(), Bug::None));
    let expected: Vec<u32> = (0..BLOCKS * CONSUMERS)
        .map(|i| {
            let lane = (i % CONSUMERS) as usize;
            let rounds = words.chunks_exact(WORDS as usize);
            rounds.map(|of| of[lane] + of[lane + PART as usize]).sum()
        })
        .collect();
    assert_eq!(download::<u32>(&y), expected);
}

#[test]
fn mistakes_around_copies_to_blocks_are_reported() {
    let device = Device::new();
    let x = upload(&device, &[1_u32; (ROUNDS * WORDS) as usize]);
    let y = device.alloc(4 * (BLOCKS * CONSUMERS) as usize).unwrap();
    let fault = |bug| run_faulty::<share>(&device, &shape(BLOCKS, 64), (x.ptr(), y.ptr(), bug));
    faults! {
        fault(Bug::NoSync) => BlockNotBegun | Race | Uninitialized | Barrier;
        fault(Bug::NarrowWait) => Race;
        fault(Bug::GivesBackToItself) => Race | InFlight | Barrier;
        fault(Bug::FewBytes) => Deadlock | Barrier | InFlight;
        fault(Bug::NothingExpected) => Deadlock | Barrier | InFlight;
        fault(Bug::OwnBlockAlone) => Deadlock | Barrier | InFlight;
        fault(Bug::EndsEarly) => BlockEnded;
        fault(Bug::ThirdBlock) => "block 2 of a cluster of 2";
        fault(Bug::NoBlock) => "the mask names no block";
        fault(Bug::OddTarget) => Argument;
        fault(Bug::NoInit) => Barrier | Uninitialized;
    }
}
