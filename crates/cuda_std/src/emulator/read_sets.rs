//! The readers of a cell that more than two threads have read.
//!
//! A set has the lanes and the time of the reads of each warp. A later read replaces earlier ones of its warp
//! that are ordered before it, since any access ordered after the later read is ordered after those too.
//! Reads before the block's last barrier are dropped at the next use.

use std::collections::{HashMap, TryReserveError};

use super::stamp;
use super::vector_clocks::Now;

#[derive(Debug, Clone, Copy, Default)]
struct WarpReads {
    time: u64,
    lanes: u32,
    place: u32,
}

/// The sets of one kind of memory.
#[derive(Debug)]
pub(crate) struct ReadSets {
    warps: usize,
    /// For each set, the `Exec::base` of its reads.
    bases: Vec<u64>,
    reads: Vec<WarpReads>,
    /// Reads that do not fit their warp's entry, because lanes of the warp are ordered differently.
    extra: HashMap<usize, Vec<u64>>,
}

/// The most sets that a marker can name.
const MOST: usize = 1 << 24;
const NUMBER_SHIFT: u32 = 6;

/// The set that a read stamp with `stamp::FLAG` stands for.
pub(crate) fn number(marker: u64) -> usize {
    (marker >> NUMBER_SHIFT) as usize & (MOST - 1)
}

impl ReadSets {
    pub(crate) fn new(warps: usize) -> Self {
        Self {
            warps,
            bases: Vec::new(),
            reads: Vec::new(),
            extra: HashMap::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bases.clear();
        self.reads.clear();
        self.extra.clear();
    }

    /// Makes an empty set, and returns the stamp that stands for it. `None` if there are too many, `Err` if
    /// the host has no memory for it.
    pub(crate) fn create(&mut self, now: u64, base: u64) -> Result<Option<u64>, TryReserveError> {
        let number = self.bases.len();
        if number >= MOST {
            return Ok(None);
        }
        self.bases.try_reserve(1)?;
        self.reads.try_reserve(self.warps)?;
        self.bases.push(base);
        self.reads
            .resize((number + 1) * self.warps, WarpReads::default());
        let set = (number as u64) << NUMBER_SHIFT;
        Ok(Some((now * stamp::TIME) | set | stamp::FLAG))
    }

    pub(crate) fn base(&self, set: usize) -> u64 {
        self.bases[set]
    }

    /// Empties a set for reads after `base`.
    pub(crate) fn reset(&mut self, set: usize, base: u64) {
        self.bases[set] = base;
        self.reads[set * self.warps..][..self.warps].fill(WarpReads::default());
        self.extra.remove(&set);
    }

    /// The fast path of [`Self::add`]: adds a read of the current thread if lanes of its warp have read in
    /// the same segment.
    #[inline]
    pub(crate) fn join(&mut self, set: usize, now: &Now) -> bool {
        let entry = &mut self.reads[set * self.warps + (now.thread / 32) as usize];
        let joins =
            self.bases[set] == now.base && entry.time == stamp::time(now.me) && entry.lanes != 0;
        if joins {
            entry.lanes |= 1 << (now.thread % 32);
        }
        joins
    }

    /// Adds a read.
    pub(crate) fn add(&mut self, set: usize, read: u64, now: &Now) {
        let (thread, time) = (stamp::thread(read), stamp::time(read));
        let (warp, lane) = ((thread / 32) as usize, 1 << (thread % 32));
        let entry = &mut self.reads[set * self.warps + warp];
        let place = stamp::place(read) as u32;
        if entry.lanes == 0 || entry.time == time {
            entry.time = time;
            entry.place = place;
            entry.lanes |= lane;
            return;
        }
        let unordered = stamps(*entry, warp).filter(|&old| !now.ordered(old));
        for old in unordered {
            self.extra.entry(set).or_default().push(old);
        }
        *entry = WarpReads {
            time,
            lanes: lane,
            place,
        };
    }

    /// A read of the set that is not ordered before the current thread.
    pub(crate) fn find_unordered(&self, set: usize, now: &Now) -> Option<u64> {
        let base = self.bases[set];
        // All of it was before the block's last barrier.
        if base < now.base && base >= now.cluster_start {
            return None;
        }
        self.find(set, |read| !now.ordered(read))
    }

    /// Some read of the set.
    pub(crate) fn any(&self, set: usize) -> Option<u64> {
        self.find(set, |_| true)
    }

    fn find(&self, set: usize, wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let entries = &self.reads[set * self.warps..][..self.warps];
        let regular = (entries.iter().enumerate()).flat_map(|(warp, &entry)| stamps(entry, warp));
        let extra = self.extra.get(&set).into_iter().flatten().copied();
        regular.chain(extra).find(|&read| wanted(read))
    }
}

fn stamps(entry: WarpReads, warp: usize) -> impl Iterator<Item = u64> {
    let mut left = entry.lanes;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let thread = warp as u32 * 32 + left.trailing_zeros();
        left &= left - 1;
        Some(stamp::segment(entry.time, thread) | stamp::with_place(entry.place as usize))
    })
}
