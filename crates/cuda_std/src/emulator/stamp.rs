//! The 64-bit stamps of accesses in shadow memory.
//!
//! A device has one clock that counts *events*: barriers, warp synchronisations, fences, starts of
//! blocks. Between two events of its own a thread's accesses share one stamp: the time of the
//! thread's last event, and its number in the cluster. So a stamp names a segment of a thread's execution.
//! The clock never runs back, also not between launches, so old stamps need no clearing.
//!
//! ```text
//! 63          31 30     18 17    6   5       4      3..0
//! time           thread    place    atomic  flag   bytes
//! ```
//! `place` is an interned source line (`locations`). `atomic` marks atomic accesses. `flag` means *in flight*
//! on a write stamp, and *this is a read set* on a read stamp. `bytes` of a write stamp has a bit for each
//! initialised byte of the cell.

/// One unit of time.
pub(crate) const TIME: u64 = 1 << TIME_SHIFT;
const TIME_SHIFT: u32 = 31;
const THREAD_SHIFT: u32 = 18;
/// The bits from here up name a segment of a thread.
pub(crate) const SEGMENT_SHIFT: u32 = THREAD_SHIFT;
const THREAD_MASK: u64 = THREADS as u64 - 1;
/// Threads that a stamp can name: eight blocks of 1024.
pub(crate) const THREADS: u32 = 1 << (TIME_SHIFT - THREAD_SHIFT);
const PLACE_SHIFT: u32 = 6;
/// Source lines that a stamp can name; 0 is "unknown".
pub(crate) const PLACES: usize = 1 << (THREAD_SHIFT - PLACE_SHIFT);
/// The access was atomic.
pub(crate) const ATOMIC: u64 = 1 << 5;
/// In flight, or a read set: see the head of this module.
pub(crate) const FLAG: u64 = 1 << 4;
/// The initialised bytes of a cell.
pub(crate) const BYTES: u64 = 0xf;
/// The time of accesses by the host.
pub(crate) const HOST: u64 = TIME;

pub(crate) fn segment(time: u64, thread: u32) -> u64 {
    (time * TIME) | (u64::from(thread) << THREAD_SHIFT)
}

pub(crate) fn time(stamp: u64) -> u64 {
    stamp >> TIME_SHIFT
}

pub(crate) fn thread(stamp: u64) -> u32 {
    (stamp >> THREAD_SHIFT & THREAD_MASK) as u32
}

pub(crate) fn same_segment(a: u64, b: u64) -> bool {
    (a ^ b) >> THREAD_SHIFT == 0
}

pub(crate) fn place(stamp: u64) -> usize {
    (stamp >> PLACE_SHIFT) as usize & (PLACES - 1)
}

pub(crate) fn with_place(place: usize) -> u64 {
    (place as u64) << PLACE_SHIFT
}
