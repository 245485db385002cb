//! Transaction barriers.
//!
//! The state of a barrier is kept here, not in the 8 bytes, which serve only the race detector: `init` writes
//! them, all other operations access them atomically. Copies and asynchronous stores wait in their barrier's
//! queue (`transactions`). A phase completes, and its copies land, only when a thread tests it or arrives at
//! the next one. So a missing wait is always found.
//!
//! The initialisation of a barrier must be visible to its users. Threads of its own block must be ordered
//! after `init`. Other blocks, and the asynchronous proxy, which counts the bytes of copies, must be ordered
//! after a fence behind it.
//!
//! An ordinary wait acquires from threads of its own block, a wait with cluster scope from threads of all
//! blocks of the cluster.

use std::collections::HashMap;

use super::atomics::atomic;
use super::clock::{Acquired, Token};
use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::region::Region;
use super::schedule::fault_of;
use super::transactions::Transaction;
use super::vector_clocks::Atomic;
use super::waiting::Waiting;
use super::{access, async_proxy, clusters, schedule, shared_memory, stamp};

/// The barriers of the running cluster, by address.
#[derive(Debug)]
pub(crate) struct MemoryBarriers(HashMap<u32, Barrier>);

impl Extension for MemoryBarriers {
    fn new(_: &Exec) -> Self {
        Self(HashMap::new())
    }
}

#[derive(Debug, Default)]
struct Barrier {
    arrivals: u32,
    /// Arrivals that the current phase lacks.
    pending: u32,
    /// Bytes announced and not landed.
    bytes: i64,
    phase: u64,
    /// Vector clocks of the arrivals and copies of the current phase, and of the last one.
    tokens: Vec<Token>,
    last_tokens: Vec<Token>,
    /// The merged vector clocks that a wait of each scope acquires from the last phase, computed at the first
    /// wait.
    acquired: [Option<Acquired>; 2],
    copies: Vec<Transaction>,
    waiting: Vec<u32>,
    /// Stamps of the threads that have waited for the last phase.
    passed: Vec<u64>,
    /// The stamp of `init`.
    initialised: u64,
    /// The stamp of the first fence behind `init` that makes it visible to other blocks.
    fenced: Option<u64>,
}

/// The scope of a wait: the arrivals and copies that it acquires from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Block,
    Cluster,
}

impl MemoryBarriers {
    /// Missing arrivals and bytes of an incomplete phase, for messages.
    pub(crate) fn lack(&self, address: u32) -> String {
        let Some(barrier) = self.0.get(&address) else {
            return String::new();
        };
        format!(
            "phase {} lacks {} arrival(s) and {} byte(s)",
            barrier.phase, barrier.pending, barrier.bytes
        )
    }

    /// Barriers with waiting threads.
    pub(crate) fn awaited(&self) -> Vec<u32> {
        let mut addresses: Vec<u32> = (self.0.iter())
            .filter(|(_, barrier)| !barrier.waiting.is_empty())
            .map(|(&address, _)| address)
            .collect();
        addresses.sort_unstable();
        addresses
    }
}

fn barriers(exec: &mut Exec) -> &mut HashMap<u32, Barrier> {
    &mut exec.extension::<MemoryBarriers>().0
}

fn refuse(address: u32, problem: &str, place: Place) -> ! {
    fail(
        place,
        FaultKind::Barrier(format!(
            "mbarrier at shared address {address:#x}: {problem}"
        )),
    )
}

/// Checks that a barrier object is in this block's shared memory.
fn own(address: u32, place: Place) {
    if with().shared_at(address).is_none() {
        refuse(address, "no address in this block's shared memory", place);
    }
}

/// The region and offset of a barrier object of any block.
fn object(address: u32, place: Place) -> (*const Region, usize) {
    match with().shared.at(address) {
        Some(region) => (region, address as usize - region.base),
        None => refuse(address, "no address in shared memory", place),
    }
}

/// Checks an access to the object.
pub(crate) fn touch(address: u32, place: Place) {
    let (region, offset) = object(address, place);
    atomic(region, offset, 8, Atomic::Modify, place);
    let exec = with();
    let Some(barrier) = barriers(exec).get(&address) else {
        refuse(address, "not initialised", place);
    };
    let initialised = barrier.initialised;
    // Other uses since have replaced the stamp of `init` in the shadow.
    if !exec.now.ordered(initialised) {
        // SAFETY: shared regions live as long as the launch.
        let region = unsafe { &*region };
        let index = offset >> region.shift();
        exec.race(region, index, initialised, "write", "atomic access", place);
    }
}

/// The state of a barrier that was `touch`ed.
fn state(exec: &mut Exec, address: u32) -> &mut Barrier {
    barriers(exec)
        .get_mut(&address)
        .expect("barriers stay until the block ends")
}

pub(crate) fn init(address: u32, arrivals: u32, place: Place) {
    if arrivals == 0 || arrivals >= 1 << 20 {
        refuse(
            address,
            &format!("{arrivals} arrivals, limit 1..=1048575"),
            place,
        );
    }
    own(address, place);
    let (region, offset) = object(address, place);
    access::write(region, offset, 8, place);
    let barrier = Barrier {
        arrivals,
        pending: arrivals,
        initialised: with().stamp(place),
        ..Barrier::default()
    };
    barriers(with()).insert(address, barrier);
}

/// Makes the current thread's initialisations visible to other blocks and to the asynchronous proxy, if they
/// synchronise with it later.
pub(crate) fn fence(place: Place) {
    let exec = with();
    exec.tick(place);
    exec.advance();
    let (thread, fence) = (exec.thread, exec.now.me);
    for barrier in barriers(exec).values_mut() {
        if stamp::thread(barrier.initialised) == thread {
            barrier.fenced.get_or_insert(fence);
        }
    }
}

/// Checks that the initialisation of a barrier that was `touch`ed is visible to the asynchronous proxy, or to
/// the current block if the barrier is another block's.
pub(crate) fn check_fence(address: u32, place: Place) {
    let exec = with();
    let barrier = state(exec, address);
    let (initialised, fenced) = (barrier.initialised, barrier.fenced);
    if fenced.is_some_and(|fence| exec.now.ordered(fence)) {
        return;
    }
    if shared_memory::rank(address) != exec.rank {
        let problem = "no cluster::fence_barriers after its init showed it to this block";
        refuse(address, problem, place);
    }
    if !async_proxy::is_shown(exec, initialised) {
        let problem = "no cluster::fence_barriers or async_proxy::fence_shared after its init showed it to the asynchronous proxy";
        refuse(address, problem, place);
    }
}

/// Called after `thread` has ended: no transaction may be in flight to a block that has ended.
pub(crate) fn check_end(exec: &mut Exec, thread: u32) -> Result<(), Fault> {
    let rank = exec.rank_of(thread);
    if barriers(exec).is_empty() || !clusters::has_ended(exec, rank) {
        return Ok(());
    }
    let of_block = barriers(exec)
        .iter()
        .filter(|(address, _)| shared_memory::rank(**address) == rank);
    let late = of_block
        .flat_map(|(&address, barrier)| barrier.copies.iter().map(move |copy| (address, copy)));
    let Some((_, copy)) = late.min_by_key(|&(address, _)| address) else {
        return Ok(());
    };
    let (object, offset, stamp) = copy.target();
    let earlier = exec.earlier("copy", stamp);
    let kind = FaultKind::InFlight {
        what: "end of the block",
        object,
        offset,
        earlier,
    };
    let (who, place) = (stamp::thread(stamp), exec.places.of(stamp));
    Err(fault_of(exec, who, place, kind))
}

pub(crate) fn arrive(address: u32, bytes: u32, place: Place) {
    own(address, place);
    come(address, bytes, place);
}

/// An arrival at the barrier that block `rank` has at this address.
pub(crate) fn arrive_remote(address: u32, rank: u32, place: Place) {
    let there = clusters::remote(address, rank, "remote arrival", place);
    if rank != with().rank {
        touch(there, place);
        check_fence(there, place);
    }
    come(there, 0, place);
}

fn come(address: u32, bytes: u32, place: Place) {
    touch(address, place);
    complete_if_due(address, place);
    let exec = with();
    if state(exec, address).pending == 0 {
        refuse(
            address,
            "an arrival more than the phase takes, before its bytes have landed",
            place,
        );
    }
    let token = exec.token();
    let barrier = state(exec, address);
    barrier.tokens.push(token);
    barrier.pending -= 1;
    barrier.bytes += i64::from(bytes);
    exec.advance();
    wake_waiters(address, place);
}

/// Completes the phase if a thread waits for it.
pub(crate) fn wake_waiters(address: u32, place: Place) {
    if !state(with(), address).waiting.is_empty() {
        complete_if_due(address, place);
    }
}

/// Lands the copies of a phase with all arrivals, and completes it if all bytes have landed.
fn complete_if_due(address: u32, place: Place) {
    let barrier = state(with(), address);
    if barrier.pending > 0 {
        return;
    }
    let copies = std::mem::take(&mut barrier.copies);
    barrier.bytes -= copies.iter().map(Transaction::bytes).sum::<i64>();
    let complete = barrier.bytes == 0;
    for copy in copies {
        copy.land(place);
    }
    if !complete {
        return;
    }
    let exec = with();
    let barrier = state(exec, address);
    barrier.phase += 1;
    barrier.pending = barrier.arrivals;
    barrier.last_tokens = std::mem::take(&mut barrier.tokens);
    barrier.acquired = [None, None];
    barrier.passed.clear();
    let mut woken = std::mem::take(&mut barrier.waiting);
    exec.stats.barriers += 1;
    schedule::wake(exec, &mut woken);
}

/// Adds a copy that has started to the current phase.
pub(crate) fn add(address: u32, copy: Transaction, token: Token, place: Place) {
    let barrier = state(with(), address);
    barrier.copies.push(copy);
    barrier.tokens.push(token);
    with().advance();
    wake_waiters(address, place);
}

/// Checks that data from another block cannot arrive in an earlier phase than it does here: the sender must
/// be ordered after a wait for the phase before.
pub(crate) fn check_phase(address: u32, place: Place) {
    let exec = with();
    let barrier = state(exec, address);
    let on_its_way: i64 = barrier.copies.iter().map(Transaction::bytes).sum();
    if barrier.pending == 0 && barrier.bytes == on_its_way {
        complete_if_due(address, place);
    }
    let exec = with();
    let now = exec.now;
    let barrier = state(exec, address);
    if barrier.phase > 0 && !barrier.passed.iter().any(|&stamp| now.ordered(stamp)) {
        let problem = format!(
            "bytes of another block for phase {} are not ordered after a wait for phase {}, and can come before its end",
            barrier.phase,
            barrier.phase - 1
        );
        refuse(address, &problem, place);
    }
}

/// Whether the phase has completed; if so, the current thread is ordered after it.
pub(crate) fn test(address: u32, parity: u32, reach: Reach, place: Place) -> bool {
    if parity > 1 {
        refuse(address, &format!("parity is {parity}, limit 0..=1"), place);
    }
    own(address, place);
    touch(address, place);
    complete_if_due(address, place);
    let exec = with();
    let (rank, stride) = (exec.rank, exec.stride);
    let barrier = state(exec, address);
    if barrier.phase & 1 == u64::from(parity) {
        return false;
    }
    let heard = |token: &&Token| reach == Reach::Cluster || token.thread / stride == rank;
    if barrier.last_tokens.iter().any(|token| heard(&token)) {
        let acquired = match barrier.acquired[reach as usize].take() {
            Some(acquired) => acquired,
            None => {
                let givers = std::mem::take(&mut barrier.last_tokens);
                let acquired = exec.acquired(givers.iter().filter(heard));
                state(exec, address).last_tokens = givers;
                acquired
            }
        };
        exec.acquire(&acquired);
        state(exec, address).acquired[reach as usize] = Some(acquired);
    }
    if exec.cluster_blocks > 1 {
        let me = exec.now.me;
        state(exec, address).passed.push(me);
    }
    true
}

pub(crate) fn try_wait(address: u32, parity: u32, place: Place) -> bool {
    let complete = test(address, parity, Reach::Block, place);
    if !complete {
        schedule::step_aside();
    }
    complete
}

pub(crate) fn wait(address: u32, parity: u32, reach: Reach, place: Place) {
    while !test(address, parity, reach, place) {
        let exec = with();
        let me = exec.thread;
        state(exec, address).waiting.push(me);
        schedule::wait(Waiting::MemoryBarrier(address), place);
    }
}
