//! Clusters: blocks that run interleaved and reach each other's shared memory.
//!
//! The threads of a cluster have consecutive numbers, block after block, so the race detector treats them
//! like threads of one block. A block's barriers advance the vector clocks of its own threads; the cluster's
//! barrier and mbarriers advance them across blocks.
//!
//! A block's shared memory exists from the start of its first thread to the end of its last one. So every
//! access from another block must happen after some event of the block, and before the end of some thread of
//! the block. The first is checked at the access. For the second, accesses are recorded, and checked when the
//! block ends; later ones are refused at once. Neither result depends on the order in which blocks run.

use std::panic::Location;

use super::access;
use super::clock::Token;
use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::region::Region;
use super::schedule::{self, fault_of};
use super::shared_memory::mapped;
use super::stamp;
use super::views::SharedView;
use super::waiting::Waiting;
use crate::common::Element;

/// The running cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Threads of each block that have ended.
    ended: Vec<u32>,
    /// For each block, the last access to its shared memory by each thread of the others.
    accesses: Vec<Vec<Access>>,
    /// For each thread, the phase of the cluster's barrier at which it has arrived without waiting yet.
    arrived: Vec<Option<u64>>,
    /// Vector clocks of the arrivals at the barrier's current phase, and at the last one.
    tokens: Vec<Token>,
    last_tokens: Vec<Token>,
    phase: u64,
    waiting: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Access {
    stamp: u64,
    what: &'static str,
}

impl Extension for Cluster {
    fn new(exec: &Exec) -> Self {
        Self {
            ended: vec![0; exec.cluster_blocks as usize],
            accesses: (0..exec.cluster_blocks).map(|_| Vec::new()).collect(),
            arrived: vec![None; exec.threads.len()],
            tokens: Vec::new(),
            last_tokens: Vec::new(),
            phase: 0,
            waiting: Vec::new(),
        }
    }
}

fn cluster(exec: &mut Exec) -> &mut Cluster {
    exec.extension()
}

impl Cluster {
    /// Threads that have arrived at the barrier's phase, for messages, if any thread waits.
    pub(crate) fn lack(&self) -> Option<usize> {
        (!self.waiting.is_empty()).then_some(self.tokens.len())
    }
}

/// The current thread arrives at the cluster's barrier, which may complete its phase.
pub(crate) fn arrive(place: Place) {
    come(place);
    open_if_complete(with());
}

fn come(place: Place) {
    let exec = with();
    exec.tick(place);
    let me = exec.thread as usize;
    let token = exec.token();
    let cluster = cluster(exec);
    if cluster.arrived[me].is_some() {
        let text = "of the cluster: a second arrival without a wait after the first".to_owned();
        fail(place, FaultKind::Barrier(text));
    }
    cluster.arrived[me] = Some(cluster.phase);
    cluster.tokens.push(token);
    // Accesses between arrival and wait are not covered by the arrival.
    exec.advance();
}

/// The current thread waits for the phase at which it has arrived.
pub(crate) fn wait(place: Place) {
    let exec = with();
    exec.tick(place);
    let me = exec.thread;
    let own = exec.token();
    let cluster = cluster(exec);
    let Some(phase) = cluster.arrived[me as usize].take() else {
        let text = "of the cluster: a wait without an arrival before".to_owned();
        fail(place, FaultKind::Barrier(text));
    };
    if cluster.phase > phase {
        let mut givers = cluster.last_tokens.clone();
        givers.push(own);
        exec.meet(&givers, std::iter::once(me));
        return;
    }
    cluster.waiting.push(me);
    suspend(place);
}

/// [`arrive`] and [`wait`].
pub(crate) fn sync(place: Place) {
    come(place);
    let exec = with();
    let me = exec.thread;
    let cluster = cluster(exec);
    cluster.arrived[me as usize] = None;
    cluster.waiting.push(me);
    if !open_if_complete(exec) {
        suspend(place);
    }
}

fn suspend(place: Place) {
    schedule::wait(Waiting::Cluster, place);
}

/// Completes the barrier's phase if all threads that have not ended have arrived.
fn open_if_complete(exec: &mut Exec) -> bool {
    let threads = exec.cluster_blocks * exec.block_threads;
    let cluster = cluster(exec);
    let ended: u32 = cluster.ended.iter().sum();
    let come = cluster.tokens.len();
    if come == 0 || come < (threads - ended) as usize {
        return false;
    }
    cluster.phase += 1;
    let tokens = std::mem::take(&mut cluster.tokens);
    let mut waiting = std::mem::take(&mut cluster.waiting);
    if waiting.len() == threads as usize {
        exec.meet_all();
    } else {
        exec.meet(&tokens, waiting.iter().copied());
    }
    self::cluster(exec).last_tokens = tokens;
    exec.stats.barriers += 1;
    let me = exec.thread;
    waiting.retain(|&thread| thread != me);
    schedule::wake(exec, &mut waiting);
    true
}

/// Called after `thread` has ended. The cluster's barrier no longer waits for it. If it was the last thread
/// of its block, no other block may still access the block's shared memory.
pub(crate) fn leave(exec: &mut Exec, thread: u32) -> Result<(), Fault> {
    let rank = exec.rank_of(thread) as usize;
    let block_threads = exec.block_threads;
    let cluster = cluster(exec);
    cluster.ended[rank] += 1;
    if cluster.ended[rank] == block_threads {
        let accesses = std::mem::take(&mut cluster.accesses[rank]);
        let mut threads = (0..exec.block_threads).map(|local| rank as u32 * exec.stride + local);
        let late = accesses.into_iter().find(|access| {
            !threads
                .clone()
                .any(|other| exec.ordered_for(other, access.stamp))
        });
        if let Some(Access { stamp, what }) = late {
            let kind = FaultKind::BlockEnded {
                what,
                rank: rank as u32,
            };
            let (who, place) = (stamp::thread(stamp), exec.places.of(stamp));
            return Err(fault_of(exec, who, place, kind));
        }
        debug_assert!(
            threads.all(|other| exec.present[other as usize / 32] >> (other % 32) & 1 == 0)
        );
    }
    open_if_complete(exec);
    Ok(())
}

/// Whether all threads of block `rank` have ended.
pub(crate) fn has_ended(exec: &mut Exec, rank: u32) -> bool {
    let block_threads = exec.block_threads;
    cluster(exec).ended[rank as usize] == block_threads
}

/// Maps an address of the current block to the same variable in block `rank`, and records an access to it.
pub(crate) fn remote(address: u32, rank: u32, what: &'static str, place: Place) -> u32 {
    let exec = with();
    let blocks = exec.cluster_blocks;
    if rank >= blocks {
        let text = format!("{what}: block {rank} of a cluster of {blocks}");
        fail(place, FaultKind::Argument(text));
    }
    access::own_shared(format_args!("{what}:"), address, place);
    if rank != exec.rank {
        let block_threads = exec.block_threads;
        let first = rank * exec.stride;
        if !exec.is_ordered_after_one_of(first..first + block_threads) {
            fail(place, FaultKind::BlockNotBegun { what, rank });
        }
        let access = Access {
            stamp: exec.stamp(place),
            what,
        };
        let cluster = cluster(exec);
        if cluster.ended[rank as usize] == block_threads {
            fail(place, FaultKind::BlockEnded { what, rank });
        }
        // A thread's later access is ordered before the end only if its earlier ones are.
        let accesses = &mut cluster.accesses[rank as usize];
        let by_me = |other: &&mut Access| stamp::thread(other.stamp) == stamp::thread(access.stamp);
        match accesses.iter_mut().find(by_me) {
            Some(last) => *last = access,
            None => accesses.push(access),
        }
    }
    mapped(address, rank)
}

impl SharedView {
    /// The region and offset in block `rank` of element `i`, for an access to `n` elements.
    #[track_caller]
    fn in_block<T: Element>(
        self,
        [i, n]: [u32; 2],
        rank: u32,
        what: &'static str,
        place: Place,
    ) -> (*const Region, usize) {
        let offset = self.locate::<T>(what, i, n as usize);
        // SAFETY: shared regions live as long as the launch.
        let base = unsafe { (*self.region).base };
        let address = remote((base + offset) as u32, rank, what, place);
        let there = with().shared.at(address);
        let region: *const Region = there.expect("all blocks have the same pieces");
        (region, offset)
    }

    // SAFETY: `read` and `write` check the bytes, and any bits are a `T`.
    backend_functions! {
        unsafe fn load_remote[T: Element](self, i: u32, rank: u32) -> T = {
            let place = Location::caller();
            let (region, offset) = self.in_block::<T>([i, 1], rank, "remote load", place);
            access::read(region, offset, size_of::<T>(), place).cast::<T>().read()
        };
        unsafe fn store_remote[T: Element](self, i: u32, rank: u32, value: T) = {
            let place = Location::caller();
            let (region, offset) = self.in_block::<T>([i, 1], rank, "remote store", place);
            access::write(region, offset, size_of::<T>(), place).cast::<T>().write(value)
        };
        unsafe fn store_remote_vec[T: Element](self, i: u32, rank: u32, values: [T; 4]) = {
            let place = Location::caller();
            let (region, offset) = self.in_block::<T>([i, 4], rank, "remote store", place);
            access::write(region, offset, size_of::<[T; 4]>(), place).cast::<[T; 4]>().write(values)
        };
    }
}
