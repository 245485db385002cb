//! `cp.async`: copies that complete when a thread waits for them.
//!
//! When a copy starts, the read of its source is checked, and its target is marked *in flight*, so that
//! accesses to it are reported. The bytes move at the wait. The source must not have changed until then: each
//! of its cells must have the same write stamp.

use std::collections::VecDeque;

use super::access::{locate, own_shared, read};
use super::exec::{Exec, Extension, fail, with};
use super::fault::{FaultKind, Place};
use super::region::Region;
use super::stamp::{self, FLAG};

/// A copy in flight.
#[derive(Debug)]
struct Copy {
    source: *const Region,
    from: usize,
    valid: usize,
    target: *const Region,
    to: usize,
    bytes: usize,
    /// The source's write stamps at the start.
    stamps: [u64; 16],
    place: Place,
}

/// The copies of one thread.
#[derive(Debug, Default)]
struct Copies {
    open: Vec<Copy>,
    groups: VecDeque<Vec<Copy>>,
}

/// The copies of each thread.
struct AllCopies(Vec<Copies>);

impl Extension for AllCopies {
    fn new(exec: &Exec) -> Self {
        Self(exec.threads.iter().map(|_| Copies::default()).collect())
    }
}

/// The copies of the current thread.
fn copies(exec: &mut Exec) -> &mut Copies {
    let thread = exec.thread as usize;
    &mut exec.extension::<AllCopies>().0[thread]
}

/// Starts to copy `valid` bytes from a region's offset, and zeros up to `bytes`, to a shared
/// address.
pub(crate) fn start(
    target: u32,
    source: Option<(*const Region, usize)>,
    valid: usize,
    bytes: usize,
    place: Place,
) {
    let exec = with();
    exec.tick(place);
    exec.stats.async_copies += 1;
    if valid > bytes {
        let text = format!("cp.async: {valid} valid bytes of {bytes}");
        fail(place, FaultKind::Argument(text));
    }
    let (region, to) = own_shared("cp.async: target", target, place);
    let (source, from) = source.unwrap_or((std::ptr::null(), 0));
    let mut stamps = [0; 16];
    if valid > 0 {
        // The device requires the source to be aligned to the whole copy, also if only a part is read.
        // SAFETY: views are made from live regions.
        let source = unsafe { &*source };
        if !(source.base + from).is_multiple_of(bytes) {
            fail(place, source.misaligned("cp.async", from, bytes));
        }
        each_part(from, valid, |offset, part| {
            read(source, offset, part, place);
        });
        stamps = write_stamps(source, from, valid);
    }
    let exec = with();
    // SAFETY: shared regions live as long as the launch.
    let shared = unsafe { &*region };
    let in_flight = exec.stamp(place) | FLAG;
    for index in locate(shared, to, bytes, "cp.async", place) {
        // SAFETY: `locate` gives indices of the shadow.
        let cell = unsafe { &mut *shared.cell(index) };
        exec.check_overwrite(shared, index, cell, "cp.async", place);
        cell.write = in_flight;
    }
    let copy = Copy {
        source,
        from,
        valid,
        target: region,
        to,
        bytes,
        stamps,
        place,
    };
    copies(exec).open.push(copy);
}

pub(crate) fn commit(place: Place) {
    let exec = with();
    exec.tick(place);
    let copies = copies(exec);
    let group = std::mem::take(&mut copies.open);
    copies.groups.push_back(group);
}

/// Completes all groups but the `left` youngest.
pub(crate) fn wait_groups(left: usize, place: Place) {
    let exec = with();
    exec.tick(place);
    while copies(exec).groups.len() > left {
        let group = copies(exec).groups.pop_front();
        group
            .into_iter()
            .flatten()
            .for_each(|copy| land(&copy, place));
    }
}

/// Completes all copies.
pub(crate) fn wait_all(place: Place) {
    commit(place);
    wait_groups(0, place);
}

fn land(copy: &Copy, place: Place) {
    // SAFETY: both regions live as long as the launch.
    let target = unsafe { &*copy.target };
    let mut data = [0_u8; 16];
    if copy.valid > 0 {
        // SAFETY: as above.
        let source = unsafe { &*copy.source };
        if write_stamps(source, copy.from, copy.valid) != copy.stamps {
            let started = with().stamp(copy.place);
            with().source_changed(source, copy.from, started, place);
        }
        // SAFETY: `start` checked from + valid against the region, and valid <= 16.
        unsafe {
            std::ptr::copy_nonoverlapping(
                source.data().add(copy.from),
                data.as_mut_ptr(),
                copy.valid,
            )
        };
    }
    let exec = with();
    let landed = exec.stamp(copy.place) | target.full_cell();
    for index in locate(target, copy.to, copy.bytes, "cp.async", place) {
        // SAFETY: `locate` gives indices of the shadow.
        unsafe { (*target.cell(index)).write = landed };
    }
    exec.stored[1] += copy.bytes as u64;
    // SAFETY: `start` checked to + bytes against the region, and bytes <= 16.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target.data().add(copy.to), copy.bytes) };
}

/// Splits a run of bytes into accesses whose sizes are powers of two and aligned.
fn each_part(start: usize, len: usize, mut access: impl FnMut(usize, usize)) {
    let (mut offset, end) = (start, start + len);
    while offset < end {
        let widest = 1 << (end - offset).ilog2();
        let aligned = 1 << offset.trailing_zeros().min(4);
        let part = widest.min(aligned);
        access(offset, part);
        offset += part;
    }
}

/// The write stamps, without locations, of each byte's cell.
fn write_stamps(region: &Region, start: usize, len: usize) -> [u64; 16] {
    let mut stamps = [0; 16];
    for (i, slot) in stamps.iter_mut().enumerate().take(len) {
        // SAFETY: the caller checked start + len against the region.
        let write = unsafe { (*region.cell((start + i) >> region.shift())).write };
        *slot = write & !stamp::BYTES;
    }
    stamps
}
