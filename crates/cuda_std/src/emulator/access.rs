//! The checks that every access passes: bounds, alignment, initialisation, copies in flight, races.
//!
//! The race detector is like FastTrack. Each shadow cell keeps the stamp of its last write and of reads
//! since. An access is valid if every conflicting access happens before it: it was in an earlier launch, by
//! the same thread, before the block's last barrier, or before the time in the thread's vector clock, which
//! warp synchronisation, named barriers, and fences with atomics advance (see `clock`). Results do not depend
//! on the order in which threads run.
//!
//! Reads are kept exactly for shared memory, and for global memory that this launch has written: two stamps,
//! then a set (see `read_sets`). For global memory that was only read so far, such as large inputs, two reads
//! by different threads are kept, one of them from another block if there was one. A later write conflicts
//! with at least one of them, unless it is ordered after both. Atomics are kept as the last write and up to
//! two more by other threads. An atomic load is not kept: a plain write that follows it unordered is not
//! found, one that precedes it is.
//!
//! These functions are not generic and not inlined: kernels are often compiled with less
//! optimisation than this crate.

use std::fmt::Display;

use super::exec::{Exec, current, fail, with};
use super::fault::{Earlier, FaultKind, Place};
use super::read_sets;
use super::region::{Region, Shadow};
use super::stamp::{self, ATOMIC, FLAG};

/// Checks a read of `bytes` bytes (1, 2, 4, 8 or 16) and returns where they are.
///
/// Emulated kernels spend most of their time here. So the fast path comes first, without a stack frame: a
/// read of one whole cell, in bounds, that need not be recorded.
#[inline(never)]
pub(crate) fn read(region: *const Region, offset: usize, bytes: usize, place: Place) -> *mut u8 {
    // SAFETY: views are made from live regions, and `current` says why its pointer is good.
    let (exec, region) = unsafe { (&mut *current(), &*region) };
    exec.count_step(place);
    exec.loaded[region.space] += bytes as u64;
    if let Some(cell) = region.whole_cell(offset, bytes) {
        // SAFETY: `whole_cell` gives cells of the shadow.
        let cell = unsafe { &*cell };
        if cell.write & region.full_cell() == region.full_cell()
            && exec.nothing_to_note(region, cell)
        {
            // SAFETY: offset + bytes <= len, says `whole_cell`.
            return unsafe { region.data().add(offset) };
        }
    }
    read_carefully(exec, region, offset, bytes, place)
}

#[inline(never)]
fn read_carefully(
    exec: &mut Exec,
    region: &Region,
    offset: usize,
    bytes: usize,
    place: Place,
) -> *mut u8 {
    exec.check_stack(place);
    let cells = locate(region, offset, bytes, "load", place);
    let full = region.full_cell();
    for index in cells {
        let cell = region.cell(index);
        // SAFETY: `locate` gives indices of the shadow.
        let write = unsafe { (*cell).write };
        let lacking = write & full != full && !region.supply(index);
        // SAFETY: as above, and nobody has another reference to it.
        let cell = unsafe { &mut *cell };
        if lacking {
            exec.not_readable(region, index, cell, "load", place);
        }
        if !exec.nothing_to_note(region, cell) {
            exec.note_read(region, index, cell, place);
        }
    }
    // SAFETY: offset + bytes <= len, says `locate`.
    unsafe { region.data().add(offset) }
}

/// [`read`], with a check that this launch has not written the bytes.
pub(crate) fn read_constant(
    region: *const Region,
    offset: usize,
    bytes: usize,
    place: Place,
) -> *mut u8 {
    let at = read(region, offset, bytes, place);
    // SAFETY: as in `read`, which has checked the access.
    let (exec, region) = unsafe { (&*current(), &*region) };
    for index in locate(region, offset, bytes, "load", place) {
        // SAFETY: `locate` gives indices of the shadow.
        let write = unsafe { (*region.cell(index)).write };
        if write >= exec.now.launch_start {
            let (object, offset) = (region.describe(), (index << region.shift()) as u64);
            let earlier = exec.earlier("write", write);
            let kind = FaultKind::ReadonlyWritten {
                object,
                offset,
                earlier,
            };
            fail(place, kind);
        }
    }
    at
}

/// Checks a write of `bytes` bytes (1, 2, 4, 8 or 16) and returns where they go.
#[inline(never)]
pub(crate) fn write(region: *const Region, offset: usize, bytes: usize, place: Place) -> *mut u8 {
    // SAFETY: as in `read`.
    let (exec, region) = unsafe { (&mut *current(), &*region) };
    exec.count_step(place);
    exec.stored[region.space] += bytes as u64;
    let cells = locate(region, offset, bytes, "store", place);
    let new = exec.stamp(place) | region.full_cell();
    for index in cells {
        // SAFETY: `locate` gives indices of the shadow.
        let cell = unsafe { &mut *region.cell(index) };
        exec.check_overwrite(region, index, cell, "write", place);
        cell.write = new;
    }
    // SAFETY: offset + bytes <= len, says `locate`.
    unsafe { region.data().add(offset) }
}

/// Checks bounds and alignment, and returns the cells that the access covers.
#[inline(always)]
pub(crate) fn locate(
    region: &Region,
    offset: usize,
    bytes: usize,
    what: &'static str,
    place: Place,
) -> std::ops::Range<usize> {
    if bytes > region.len() || offset > region.len() - bytes {
        outside(region, offset, bytes, what, place);
    }
    if (region.base + offset) & (bytes - 1) != 0 {
        fail(place, region.misaligned(what, offset, bytes));
    }
    if bytes < 1 << region.shift() && !region.split_for(bytes) {
        no_host_memory(region, place);
    }
    let shift = region.shift();
    let first = offset >> shift;
    first..first + (bytes >> shift)
}

#[cold]
fn no_host_memory(region: &Region, place: Place) -> ! {
    let object = region.describe();
    fail(place, FaultKind::HostMemory { object })
}

#[cold]
fn outside(region: &Region, offset: usize, bytes: usize, what: &'static str, place: Place) -> ! {
    // Negative offsets wrap around.
    let start = offset as i64;
    fail(place, region.outside(what, start, start + bytes as i64))
}

/// Returns the kind of the last write to a cell, for messages.
fn writer(cell: &Shadow) -> &'static str {
    if cell.write & ATOMIC == 0 {
        "write"
    } else {
        "atomic access"
    }
}

/// Reads the 16-byte row of a matrix at a shared address, for `op`.
pub(crate) fn read_row(op: impl Display, address: u32, place: Place) -> [u32; 4] {
    let (region, offset) = own_shared(format_args!("{op}:"), address, place);
    let at = read(region, offset, 16, place);
    // SAFETY: `read` checked the 16 bytes and their alignment.
    unsafe { at.cast::<[u32; 4]>().read() }
}

/// Writes the 16-byte row of a matrix at a shared address, for `op`.
pub(crate) fn write_row(op: impl Display, address: u32, row: [u32; 4], place: Place) {
    let (region, offset) = own_shared(format_args!("{op}:"), address, place);
    let at = write(region, offset, 16, place);
    // SAFETY: `write` checked the 16 bytes and their alignment.
    unsafe { at.cast::<[u32; 4]>().write(row) }
}

/// Finds the region and offset of an address operand of `what`, which must be in this block's shared
/// memory.
pub(crate) fn own_shared(what: impl Display, address: u32, place: Place) -> (*const Region, usize) {
    let Some(region) = with().shared_at(address) else {
        let text = format!("{what} {address:#x} is no address in this block's shared memory");
        fail(place, FaultKind::Argument(text));
    };
    (region, address as usize - region.base)
}

impl Exec {
    /// Whether a read of an initialised cell is valid and need not be recorded.
    #[inline(always)]
    fn nothing_to_note(&mut self, region: &Region, cell: &Shadow) -> bool {
        let now = &self.now;
        let fresh = cell.write >= now.launch_start;
        if fresh && !now.ordered(cell.write) {
            return false;
        }
        let [first, second] = cell.reads;
        let second_is_set = second & FLAG != 0;
        // The thread has read the cell since its last event.
        if stamp::same_segment(first, now.me)
            || (!second_is_set && stamp::same_segment(second, now.me))
        {
            return true;
        }
        // An input that all threads read: reads of two other threads are recorded, one of them in this block
        // since its last barrier, and neither is ordered before this thread.
        if !fresh && !second_is_set && second >= now.base && now.naive && first >= now.launch_start
        {
            return first >= now.base || first < now.cluster_start;
        }
        // A tile that many threads read: the warp is recorded.
        let set_is_live = second_is_set && second >= now.launch_start && first & ATOMIC == 0;
        set_is_live && self.read_sets[region.space].join(read_sets::number(second), &self.now)
    }

    #[inline(never)]
    fn note_read(&mut self, region: &Region, index: usize, cell: &mut Shadow, place: Place) {
        if !self.now.ordered(cell.write) {
            self.race(region, index, cell.write, writer(cell), "read", place);
        }
        let me = self.stamp(place);
        for read in cell.reads {
            if read & (ATOMIC | FLAG) == ATOMIC && !self.now.ordered(read) {
                self.race(region, index, read, "atomic access", "read", place);
            }
        }
        let [first, second] = cell.reads;
        let space = region.space;
        if second & FLAG != 0 && second >= self.now.launch_start {
            return self.add_to_set(space, cell, me);
        }
        if self.now.ordered(first) {
            cell.reads[0] = me;
        } else if second & FLAG != 0 || self.now.ordered(second) {
            cell.reads[1] = me;
        } else if space == 0 && cell.write < self.now.launch_start {
            if second < self.now.cluster_start {
                cell.reads = [second, me];
            }
        } else {
            match self.read_sets[space].create(stamp::time(self.now.me), self.now.base) {
                Ok(Some(set)) => {
                    for read in [second, me] {
                        self.read_sets[space].add(read_sets::number(set), read, &self.now);
                    }
                    cell.reads[1] = set;
                }
                Ok(None) => {}
                Err(_) => no_host_memory(region, place),
            }
        }
    }

    fn add_to_set(&mut self, space: usize, cell: &mut Shadow, read: u64) {
        let set = read_sets::number(cell.reads[1]);
        let set_base = self.read_sets[space].base(set);
        if set_base != self.now.base {
            // This block's barriers do not order reads by another block, so one of these is kept.
            if set_base < self.now.cluster_start
                && let Some(foreign) = self.read_sets[space].any(set)
            {
                cell.reads[0] = foreign;
            }
            let base = self.now.base;
            self.read_sets[space].reset(set, base);
        }
        self.read_sets[space].add(set, read, &self.now);
    }

    /// Finds a read that is not ordered before the current thread, among the reads that a read stamp
    /// represents.
    #[inline]
    pub(crate) fn unordered_read(&self, region: &Region, read: u64) -> Option<u64> {
        if read < self.now.launch_start {
            None
        } else if read & FLAG == 0 {
            (!self.now.ordered(read)).then_some(read)
        } else {
            let sets = &self.read_sets[region.space];
            sets.find_unordered(read_sets::number(read), &self.now)
        }
    }

    /// Checks that a plain write is ordered after the cell's accesses, and clears its reads.
    #[inline]
    pub(crate) fn check_overwrite(
        &mut self,
        region: &Region,
        index: usize,
        cell: &mut Shadow,
        what: &'static str,
        place: Place,
    ) {
        if cell.write & FLAG != 0 {
            self.not_readable(region, index, cell, what, place);
        }
        if !self.now.ordered(cell.write) {
            self.race(region, index, cell.write, writer(cell), what, place);
        }
        if cell.reads == [0; 2] {
            return;
        }
        for slot in 0..2 {
            let read = cell.reads[slot];
            if let Some(unordered) = self.unordered_read(region, read) {
                let earlier = if read & (ATOMIC | FLAG) == ATOMIC {
                    "atomic access"
                } else {
                    "read"
                };
                self.race(region, index, unordered, earlier, what, place);
            }
            if read & FLAG != 0 && read >= self.now.launch_start {
                let base = self.now.base;
                self.read_sets[region.space].reset(read_sets::number(read), base);
            } else {
                cell.reads[slot] = 0;
            }
        }
    }

    /// Refuses a cell that is not fully initialised, or in flight.
    #[cold]
    #[inline(never)]
    pub(crate) fn not_readable(
        &self,
        region: &Region,
        index: usize,
        cell: &Shadow,
        what: &'static str,
        place: Place,
    ) -> ! {
        let start = index << region.shift();
        if cell.write & FLAG != 0 {
            let earlier = self.earlier("copy", cell.write);
            fail(place, region.in_flight(what, start, earlier));
        }
        let offset = start + (cell.write & stamp::BYTES).trailing_ones() as usize;
        fail(place, region.uninitialised(what, offset))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn race(
        &self,
        region: &Region,
        index: usize,
        stamp: u64,
        earlier: &'static str,
        what: &'static str,
        place: Place,
    ) -> ! {
        let (object, offset) = (region.describe(), (index << region.shift()) as u64);
        let earlier = self.earlier(earlier, stamp);
        let kind = FaultKind::Race {
            what,
            object,
            offset,
            earlier,
        };
        fail(place, kind)
    }

    /// Reports that the source of a copy was written while the copy was in flight. `copy` is the stamp of the
    /// copy.
    #[cold]
    #[inline(never)]
    pub(crate) fn source_changed(
        &self,
        source: &Region,
        from: usize,
        copy: u64,
        place: Place,
    ) -> ! {
        let what = "source written before the wait";
        fail(
            place,
            source.in_flight(what, from, self.earlier("copy", copy)),
        )
    }

    pub(crate) fn earlier(&self, what: &'static str, stamp: u64) -> Box<Earlier> {
        Box::new(Earlier {
            what,
            thread: self.thread_of(stamp),
            location: self.places.of(stamp),
        })
    }
}
