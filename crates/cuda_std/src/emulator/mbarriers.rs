//! Transaction barriers and bulk copies.
//!
//! The state of a barrier is kept here, not in the 8 bytes; those serve the race detector: `init`
//! writes them, all else accesses them atomically. Copies wait in their barrier's queue. A phase is
//! completed, and its copies land, only when somebody wants to know or arrives at the next one, so
//! a wait that is left out always shows.

use std::collections::{HashMap, HashSet};

use super::access::{self, locate};
use super::atomics::{Atomic, atomic};
use super::clock::Token;
use super::exec::{Exec, Place, describe, fail, with};
use super::fault::FaultKind;
use super::region::Region;
use super::schedule;
use super::stamp::{self, FLAG};
use super::waiting::{Wait, Waiting};

/// The barriers of the running block, by address.
#[derive(Debug, Default)]
pub(crate) struct MemoryBarriers {
    barriers: HashMap<u32, Barrier>,
    /// Segments (stamps without places) in which bulk copies wrote: the asynchronous proxy sees
    /// those without a fence.
    pub(crate) bulk_writes: HashSet<u64>,
}

#[derive(Debug, Default)]
struct Barrier {
    arrivals: u32,
    /// Arrivals that the current phase lacks.
    pending: u32,
    /// Bytes announced and not landed.
    bytes: i64,
    phase: u64,
    /// What arrivers and copies bring to the current phase, and what they brought to the last one.
    tokens: Vec<Token>,
    last_tokens: Vec<Token>,
    copies: Vec<BulkCopy>,
    waiting: Vec<u32>,
}

#[derive(Debug)]
struct BulkCopy {
    source: *const Region,
    from: usize,
    target: *const Region,
    to: usize,
    bytes: usize,
    /// The source's write stamps at the start.
    stamps: Vec<u64>,
    /// The stamp that the target gets.
    written: u64,
}

/// Bytes in which bulk copies are checked.
const CHUNK: usize = 16;

impl MemoryBarriers {
    pub(crate) fn clear(&mut self) {
        self.barriers.clear();
        self.bulk_writes.clear();
    }

    /// What an incomplete phase lacks, for messages.
    pub(crate) fn lack(&self, address: u32) -> String {
        let Some(barrier) = self.barriers.get(&address) else {
            return String::new();
        };
        format!(
            "phase {} lacks {} arrival(s) and {} byte(s)",
            barrier.phase, barrier.pending, barrier.bytes
        )
    }

    /// Barriers that somebody waits at.
    pub(crate) fn awaited(&self) -> Vec<u32> {
        let mut addresses: Vec<u32> = (self.barriers.iter())
            .filter(|(_, barrier)| !barrier.waiting.is_empty())
            .map(|(&address, _)| address)
            .collect();
        addresses.sort_unstable();
        addresses
    }
}

fn refuse(address: u32, problem: &str, place: Place) -> ! {
    fail(
        place,
        FaultKind::Barrier(format!(
            "mbarrier at shared address {address:#x}: {problem}"
        )),
    )
}

/// The region and offset of a barrier object.
fn object(address: u32, place: Place) -> (*const Region, usize) {
    match with().shared_at(address) {
        Some(region) => (region, address as usize - region.base),
        None => refuse(address, "no address in this block's shared memory", place),
    }
}

/// Checks an access to the object.
fn touch(address: u32, place: Place) {
    let (region, offset) = object(address, place);
    atomic(region, offset, 8, Atomic::Modify, place);
    if !with().mbarriers.barriers.contains_key(&address) {
        refuse(address, "not initialised", place);
    }
}

/// The state of a barrier that was `touch`ed.
fn state(exec: &mut Exec, address: u32) -> &mut Barrier {
    exec.mbarriers
        .barriers
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
    let (region, offset) = object(address, place);
    access::write(region, offset, 8, place);
    let barrier = Barrier {
        arrivals,
        pending: arrivals,
        ..Barrier::default()
    };
    with().mbarriers.barriers.insert(address, barrier);
}

pub(crate) fn arrive(address: u32, bytes: u32, place: Place) {
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
    advance(exec);
    wake_waiters(address, place);
}

/// Completes the phase if somebody waits for that.
fn wake_waiters(address: u32, place: Place) {
    if !state(with(), address).waiting.is_empty() {
        complete_if_due(address, place);
    }
}

/// What the thread does from now on was not brought to the barrier.
fn advance(exec: &mut Exec) {
    let time = exec.next_time();
    let me = exec.thread as usize;
    exec.threads[me].time = time;
    exec.refresh();
}

/// Lands the copies of a phase that everybody has arrived at, and completes it if all bytes are
/// there.
fn complete_if_due(address: u32, place: Place) {
    let barrier = state(with(), address);
    if barrier.pending > 0 {
        return;
    }
    let copies = std::mem::take(&mut barrier.copies);
    barrier.bytes -= copies.iter().map(|copy| copy.bytes as i64).sum::<i64>();
    let complete = barrier.bytes == 0;
    for copy in copies {
        land(&copy, place);
    }
    if !complete {
        return;
    }
    let exec = with();
    let barrier = state(exec, address);
    barrier.phase += 1;
    barrier.pending = barrier.arrivals;
    barrier.last_tokens = std::mem::take(&mut barrier.tokens);
    let mut woken = std::mem::take(&mut barrier.waiting);
    exec.stats.barriers += 1;
    schedule::wake(exec, &mut woken);
}

/// Whether the phase has completed; if so, the current thread is ordered after it.
pub(crate) fn test(address: u32, parity: u32, place: Place) -> bool {
    if parity > 1 {
        refuse(address, &format!("parity is {parity}, limit 0..=1"), place);
    }
    touch(address, place);
    complete_if_due(address, place);
    let exec = with();
    let barrier = state(exec, address);
    if barrier.phase & 1 == u64::from(parity) {
        return false;
    }
    let mut givers = barrier.last_tokens.clone();
    if !givers.is_empty() {
        givers.push(exec.token());
        let me = exec.thread;
        exec.meet(&givers, std::iter::once(me));
    }
    true
}

pub(crate) fn try_wait(address: u32, parity: u32, place: Place) -> bool {
    let complete = test(address, parity, place);
    if !complete {
        schedule::step_aside();
    }
    complete
}

pub(crate) fn wait(address: u32, parity: u32, place: Place) {
    while !test(address, parity, place) {
        let exec = with();
        let me = exec.thread;
        state(exec, address).waiting.push(me);
        schedule::wait(Wait {
            what: Waiting::MemoryBarrier(address),
            place,
        });
    }
}

/// Starts a bulk copy.
pub(crate) fn copy(
    target: u32,
    source: Option<(*const Region, usize)>,
    bytes: u32,
    address: u32,
    place: Place,
) {
    let bytes = bytes as usize;
    let aligned = |value: usize| value.is_multiple_of(CHUNK);
    if bytes == 0 || !aligned(bytes) || !aligned(target as usize) {
        let text =
            format!("copy_bulk: {bytes} bytes to {target:#x}, both must be multiples of {CHUNK}");
        fail(place, FaultKind::Argument(text));
    }
    let (source, from) = source.expect("bytes > 0");
    touch(address, place);
    let Some(region) = with().shared_at(target) else {
        let text =
            format!("copy_bulk: target {target:#x} is no address in this block's shared memory");
        fail(place, FaultKind::Argument(text));
    };
    let (to, shared): (usize, *const Region) = (target as usize - region.base, region);
    let exec = with();
    exec.stats.async_copies += 1;
    // The copy is a reader and a writer of its own time, which only the barrier passes on.
    let token = exec.token();
    let written = exec.stamp(place);
    exec.mbarriers
        .bulk_writes
        .insert(written >> stamp::SEGMENT_SHIFT);
    // SAFETY: shared regions live as long as the launch.
    let shared_region = unsafe { &*shared };
    for offset in (0..bytes).step_by(CHUNK) {
        access::read(source, from + offset, CHUNK, place);
        for index in locate(shared_region, to + offset, CHUNK, "copy_bulk", place) {
            // SAFETY: `locate` gives indices of the shadow.
            let cell = unsafe { &mut *shared_region.cell(index) };
            exec.check_overwrite(shared_region, index, cell, "copy_bulk", place);
            cell.write = written | FLAG;
        }
    }
    let stamps = write_stamps(source, from, bytes);
    let copy = BulkCopy {
        source,
        from,
        target: shared,
        to,
        bytes,
        stamps,
        written,
    };
    let exec = with();
    let barrier = state(exec, address);
    barrier.copies.push(copy);
    barrier.tokens.push(token);
    advance(exec);
    wake_waiters(address, place);
}

fn land(copy: &BulkCopy, place: Place) {
    // SAFETY: both regions live as long as the launch.
    let (source, target) = unsafe { (&*copy.source, &*copy.target) };
    let exec = with();
    if write_stamps(source, copy.from, copy.bytes) != copy.stamps {
        let earlier = exec.earlier("copy", copy.written);
        let (object, offset) = (describe(source), copy.from as u64);
        fail(
            place,
            FaultKind::InFlight {
                what: "source written before the wait",
                object,
                offset,
                earlier,
            },
        );
    }
    for offset in (0..copy.bytes).step_by(CHUNK) {
        for index in locate(target, copy.to + offset, CHUNK, "copy_bulk", place) {
            // SAFETY: `locate` gives indices of the shadow.
            unsafe { (*target.cell(index)).write = copy.written | target.full_cell() };
        }
    }
    exec.stored[1] += copy.bytes as u64;
    // SAFETY: `copy` checked both ranges against their regions, which are different ones.
    unsafe {
        let (from, to) = (source.data().add(copy.from), target.data().add(copy.to));
        std::ptr::copy_nonoverlapping(from, to, copy.bytes);
    }
}

/// The times and threads of the last writes of a range's 4-byte words.
fn write_stamps(region: *const Region, start: usize, len: usize) -> Vec<u64> {
    // SAFETY: views are made from live regions.
    let region = unsafe { &*region };
    let word = |offset: usize| {
        // SAFETY: the range was checked against the region.
        let write = unsafe { (*region.cell(offset >> region.shift())).write };
        write & !stamp::BYTES
    };
    (start..start + len).step_by(4).map(word).collect()
}
