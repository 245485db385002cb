//! The happens-before relation between threads: vector clocks, advanced by barriers, warp synchronisation,
//! and fences with atomics.
//!
//! A barrier of the whole cluster advances `Now::base`, and everything before it is ordered. (Without
//! clusters, that is a barrier of the whole block.) For all else, a thread has a *vector clock*: for each
//! thread of its cluster, the time before which that thread's accesses happen before its own next access.
//! Threads that synchronised together share a vector clock. The next barrier of the whole cluster drops it,
//! since `base` covers all of it.
//!
//! Across clusters, and within a block without barriers, fences and atomics give the order, as in the PTX
//! memory model. The releasing thread executes a fence, then an atomic write; the acquiring thread an atomic
//! read that sees it, then a fence. The first fence takes a snapshot of the thread's vector clock. The atomic
//! write stores the snapshot at the memory location, and the atomic read picks it up. The second fence merges
//! it into the reader's vector clock. An atomic without fences orders nothing.
//!
//! A barrier of a whole block merges snapshots and picked-up clocks of all threads. So *write, fence* by
//! every thread, *barrier*, *atomic* by one of them is a release by all, and conversely for acquire. The
//! memory model strictly wants the fence after the barrier, but all devices work in this way, and the pattern
//! is common.

use std::rc::Rc;

use super::exec::{Exec, with};
use super::fault::Place;
use super::region::Region;
use super::stamp;
use super::vector_clocks::{Atomic, Fences, Foreign, Scope, merged, raise};

/// A fence of the current thread.
pub(crate) fn fence(scope: Scope, place: Place) {
    let exec = with();
    exec.tick(place);
    exec.stats.fences += 1;
    let (id, cluster, base) = (exec.thread as usize, exec.now.cluster_start, exec.now.base);
    let width = exec.threads.len();
    let time = exec.next_time();
    let thread = &mut exec.threads[id];

    if let Some(gained) = thread.fences.pick_up(scope) {
        if let Some(theirs) = gained.of_cluster(cluster) {
            let mut known = thread
                .known
                .as_ref()
                .map_or_else(|| vec![0; width], |known| Vec::clone(known));
            raise(&mut known, theirs);
            thread.known = Some(Rc::new(known));
        }
        if scope == Scope::Device {
            thread.foreign = merged(thread.foreign.as_ref(), Some(&gained));
        }
    }

    let mut known = thread
        .known
        .as_ref()
        .map_or_else(|| vec![0; width], |known| Vec::clone(known));
    known[id] = thread.time + 1;
    let mut snapshot = thread
        .foreign
        .as_ref()
        .map_or_else(Foreign::default, |foreign| Foreign::clone(foreign));
    snapshot.learn(cluster, base, known);
    thread.fences.release(scope, snapshot);
    thread.time = time;
    exec.refresh();
}

impl Exec {
    /// The release and acquire effects of an atomic access of the current thread, at a location of a region
    /// and an offset.
    #[inline]
    pub(crate) fn synchronise(&mut self, region: *const Region, offset: usize, kind: Atomic) {
        let fences = &self.threads[self.thread as usize].fences;
        if self.sync_variables.is_empty() && !fences.have_released() {
            return;
        }
        self.synchronise_slowly(region, offset, kind);
    }

    fn synchronise_slowly(&mut self, region: *const Region, offset: usize, kind: Atomic) {
        let fences = &mut self.threads[self.thread as usize].fences;
        let variable = self
            .sync_variables
            .entry((region.addr(), offset))
            .or_default();
        let block = self.now.cluster_start + u64::from(self.rank);
        variable.access(fences, kind, block);
    }

    /// The current thread's vector clock, for a synchronisation of a part of the cluster.
    pub(crate) fn token(&self) -> Token {
        let thread = &self.threads[self.thread as usize];
        Token {
            thread: self.thread,
            time: thread.time,
            known: thread.known.clone(),
            foreign: thread.foreign.clone(),
        }
    }

    /// Begins a new segment of the current thread, after it passed its token to others without waiting for
    /// them. Its later accesses are not covered by the token.
    pub(crate) fn advance(&mut self) {
        let time = self.next_time();
        self.threads[self.thread as usize].time = time;
        self.refresh();
    }

    /// The merged vector clocks of the `givers`.
    pub(crate) fn acquired<'a>(&self, givers: impl Iterator<Item = &'a Token> + Clone) -> Acquired {
        let mut known: Option<Rc<Vec<u64>>> = None;
        let mut foreign = None;
        // Threads that share a vector clock usually synchronise together again.
        let mut last: Option<&Rc<Vec<u64>>> = None;
        for giver in givers.clone() {
            foreign = merged(foreign.as_ref(), giver.foreign.as_ref());
            let Some(theirs) = &giver.known else {
                continue;
            };
            if last.is_some_and(|last| Rc::ptr_eq(last, theirs)) {
                continue;
            }
            last = Some(theirs);
            match &mut known {
                None => known = Some(Rc::clone(theirs)),
                Some(ours) => raise(Rc::<Vec<u64>>::make_mut(ours), theirs),
            }
        }
        let mut known = known.unwrap_or_else(|| Rc::new(vec![0; self.threads.len()]));
        let entries = Rc::make_mut(&mut known);
        for giver in givers {
            let entry = &mut entries[giver.thread as usize];
            *entry = (*entry).max(giver.time + 1);
        }
        Acquired { known, foreign }
    }

    /// Orders everything that the `givers` did before everything that the `takers` do from now on.
    pub(crate) fn meet(&mut self, givers: &[Token], takers: impl Iterator<Item = u32>) {
        let Acquired { known, foreign } = self.acquired(givers.iter());
        let time = self.next_time();
        for taker in takers {
            let thread = &mut self.threads[taker as usize];
            // A taker that is also a giver keeps its own vector clock within the merged one.
            thread.known = Some(Rc::clone(&known));
            thread.foreign.clone_from(&foreign);
            thread.time = time;
        }
        self.refresh();
    }

    /// Orders everything that `acquired` covers before everything that the current thread does from now on.
    pub(crate) fn acquire(&mut self, acquired: &Acquired) {
        let (id, time) = (self.thread as usize, self.next_time());
        let thread = &mut self.threads[id];
        let mut known = Rc::clone(&acquired.known);
        let entries = Rc::make_mut(&mut known);
        if let Some(own) = &thread.known {
            raise(entries, own);
        }
        entries[id] = entries[id].max(thread.time + 1);
        thread.known = Some(known);
        thread.foreign = merged(thread.foreign.as_ref(), acquired.foreign.as_ref());
        thread.time = time;
        self.refresh();
    }

    /// Orders everything so far before everything to come, for all threads of the cluster.
    pub(crate) fn meet_all(&mut self) {
        let time = self.next_time();
        self.now.base = time * stamp::TIME;
        let mut foreign: Option<Rc<Foreign>> = None;
        for thread in &self.threads {
            foreign = merged(foreign.as_ref(), thread.foreign.as_ref());
        }
        self.share_fences(0..self.threads.len() as u32);
        for thread in &mut self.threads {
            thread.time = time;
            thread.known = None;
            thread.foreign.clone_from(&foreign);
        }
        self.refresh();
    }

    /// Merges the released and acquired snapshots of these threads, as a barrier of a whole block does.
    pub(crate) fn share_fences(&mut self, threads: impl Iterator<Item = u32> + Clone) {
        let mut fences = Fences::default();
        for thread in threads.clone() {
            fences.merge(&self.threads[thread as usize].fences);
        }
        for thread in threads {
            self.threads[thread as usize].fences.clone_from(&fences);
        }
    }

    /// Whether some event of one of these threads of the cluster happens before the current thread's next
    /// access.
    pub(crate) fn is_ordered_after_one_of(&self, mut threads: std::ops::Range<u32>) -> bool {
        let known = self.threads[self.thread as usize].known.as_ref();
        let heard = |known: &Rc<Vec<u64>>| threads.any(|thread| known[thread as usize] > 0);
        self.now.base > self.now.cluster_start || known.is_some_and(heard)
    }

    /// Whether the access with `stamp`, of this cluster, happens before the next access of thread `other`.
    pub(crate) fn ordered_for(&self, other: u32, stamp: u64) -> bool {
        let knows =
            |known: &Rc<Vec<u64>>| known[stamp::thread(stamp) as usize] > stamp::time(stamp);
        stamp < self.now.base
            || self.threads[other as usize]
                .known
                .as_ref()
                .is_some_and(knows)
    }
}

/// The merged vector clocks of some threads.
#[derive(Debug)]
pub(crate) struct Acquired {
    known: Rc<Vec<u64>>,
    foreign: Option<Rc<Foreign>>,
}

/// A thread's vector clock at its arrival at a barrier.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) thread: u32,
    time: u64,
    known: Option<Rc<Vec<u64>>>,
    foreign: Option<Rc<Foreign>>,
}
