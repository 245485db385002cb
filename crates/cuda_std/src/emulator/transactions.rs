//! Copies and stores that land later and report to a transaction barrier.
//!
//! When one starts, its target is marked *in flight*, so that whoever touches it is reported. The
//! bytes come when the barrier's phase is looked at.

use super::access::{self, locate};
use super::exec::{Place, describe, fail, with};
use super::fault::FaultKind;
use super::region::Region;
use super::stamp::{self, FLAG};
use super::{clusters, mbarriers};

/// What is on its way to shared memory.
#[derive(Debug)]
pub(crate) struct Transaction {
    source: Source,
    target: *const Region,
    to: usize,
    bytes: usize,
    /// The stamp that the target gets.
    written: u64,
}

#[derive(Debug)]
enum Source {
    Memory {
        region: *const Region,
        from: usize,
        /// The source's write stamps at the start.
        stamps: Vec<u64>,
    },
    Value([u8; STORE_BYTES]),
}

/// Bytes in which bulk copies are checked.
const CHUNK: usize = 16;
/// Bytes of an asynchronous store.
const STORE_BYTES: usize = 8;

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
    mbarriers::touch(address, place);
    let Some(region) = with().shared_at(target) else {
        let text =
            format!("copy_bulk: target {target:#x} is no address in this block's shared memory");
        fail(place, FaultKind::Argument(text));
    };
    let (to, shared): (usize, *const Region) = (target as usize - region.base, region);
    let exec = with();
    // The copy is a reader and a writer of its own time, which only the barrier passes on.
    let token = exec.token();
    let written = exec.stamp(place);
    exec.mbarriers
        .bulk_writes
        .insert(written >> stamp::SEGMENT_SHIFT);
    for offset in (0..bytes).step_by(CHUNK) {
        access::read(source, from + offset, CHUNK, place);
        mark(shared, to + offset, CHUNK, "copy_bulk", place);
    }
    let copy = Transaction {
        source: Source::Memory {
            region: source,
            from,
            stamps: write_stamps(source, from, bytes),
        },
        target: shared,
        to,
        bytes,
        written,
    };
    with().stats.async_copies += 1;
    mbarriers::add(address, copy, token, place);
}

/// Starts a store to block `rank` of the cluster, at the place that has this address here, which
/// reports to that block's barrier.
pub(crate) fn store(to: u32, barrier: u32, rank: u32, values: [f32; 2], place: Place) {
    const WHAT: &str = "st.async";
    with().tick(place);
    let there = clusters::remote(to, rank, WHAT, place);
    let barrier = clusters::remote(barrier, rank, WHAT, place);
    mbarriers::touch(barrier, place);
    mbarriers::check_phase(barrier, place);
    let exec = with();
    let region = exec
        .cluster_shared_at(there)
        .expect("all blocks have the same pieces");
    let (to, target): (usize, *const Region) = (there as usize - region.base, region);
    let token = exec.token();
    let written = exec.stamp(place);
    mark(target, to, STORE_BYTES, WHAT, place);
    let mut bytes = [0; STORE_BYTES];
    for (bytes, value) in bytes.chunks_mut(size_of::<f32>()).zip(values) {
        bytes.copy_from_slice(&value.to_ne_bytes());
    }
    let store = Transaction {
        source: Source::Value(bytes),
        target,
        to,
        bytes: STORE_BYTES,
        written,
    };
    with().stats.async_copies += 1;
    mbarriers::add(barrier, store, token, place);
}

/// Checks that a range may be overwritten by the current thread, and marks it in flight.
fn mark(target: *const Region, to: usize, bytes: usize, what: &'static str, place: Place) {
    let exec = with();
    // SAFETY: shared regions live as long as the launch.
    let target = unsafe { &*target };
    let in_flight = exec.stamp(place) | FLAG;
    for index in locate(target, to, bytes, what, place) {
        // SAFETY: `locate` gives indices of the shadow.
        let cell = unsafe { &mut *target.cell(index) };
        exec.check_overwrite(target, index, cell, what, place);
        cell.write = in_flight;
    }
}

impl Transaction {
    pub(super) fn bytes(&self) -> i64 {
        self.bytes as i64
    }

    /// Brings the bytes.
    pub(super) fn land(&self, place: Place) {
        let exec = with();
        // SAFETY: shared regions live as long as the launch.
        let target = unsafe { &*self.target };
        let bytes: *const u8 = match &self.source {
            Source::Memory {
                region,
                from,
                stamps,
            } => {
                // SAFETY: views are made from live regions.
                let source = unsafe { &**region };
                if write_stamps(source, *from, self.bytes) != *stamps {
                    let earlier = exec.earlier("copy", self.written);
                    let (object, offset) = (describe(source), *from as u64);
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
                // SAFETY: `copy` checked the range against the region.
                unsafe { source.data().add(*from) }
            }
            Source::Value(bytes) => bytes.as_ptr(),
        };
        for offset in (0..self.bytes).step_by(STORE_BYTES) {
            for index in locate(target, self.to + offset, STORE_BYTES, "landing", place) {
                // SAFETY: `locate` gives indices of the shadow.
                unsafe { (*target.cell(index)).write = self.written | target.full_cell() };
            }
        }
        exec.stored[1] += self.bytes as u64;
        // SAFETY: the source has that many bytes, and the target's range was checked when the copy
        // started; they are different regions.
        unsafe { std::ptr::copy_nonoverlapping(bytes, target.data().add(self.to), self.bytes) };
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
