//! What orders accesses of different threads: barriers over parts of the block, and fences with
//! atomics.
//!
//! A barrier of the whole cluster needs none of this: it moves `Now::base`, and everything before is
//! ordered. (Without clusters, that is a barrier of the whole block.) For the rest, a thread has
//! *knowledge*: for each thread of its cluster, the time before which that thread's accesses are
//! ordered before its own. Knowledge is shared by those who gained it together, and forgotten at the
//! next barrier of the whole cluster, where everyone knows everything.
//!
//! Across clusters, and within a block without barriers, order comes from fences and atomics, as in the
//! PTX memory model: a fence, then an atomic write, on one side; an atomic read that sees it, then
//! a fence, on the other. The fence takes a snapshot of what the thread knows; the atomic write
//! leaves the snapshot at the memory location; the atomic read picks it up; the second fence makes
//! it the reader's knowledge. An atomic without fences orders nothing.
//!
//! A barrier of a whole block passes on snapshots and what was picked up: *write, fence* by every
//! thread, *barrier*, *atomic* by one of them is a release of all, and the other way round. The
//! letter of the memory model wants the fence after the barrier, but no device works otherwise, and
//! the pattern is common.

use std::rc::Rc;

use super::exec::{Exec, with};
use super::fault::Place;
use super::knowledge::{Atomic, Fences, Foreign, Scope, merged, raise};
use super::region::Region;
use super::stamp;

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
    /// What an atomic access of the current thread leaves and picks up. The location is its region
    /// and offset.
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

    /// What the current thread gives to a meeting of a part of the cluster.
    pub(crate) fn token(&self) -> Token {
        let thread = &self.threads[self.thread as usize];
        Token {
            thread: self.thread,
            time: thread.time,
            known: thread.known.clone(),
            foreign: thread.foreign.clone(),
        }
    }

    /// What the current thread does from now on is not what it did before: it gave its token to
    /// others without waiting for them.
    pub(crate) fn advance(&mut self) {
        let time = self.next_time();
        self.threads[self.thread as usize].time = time;
        self.refresh();
    }

    /// What those know who have heard of everything that the `givers` did.
    pub(crate) fn lesson<'a>(&self, givers: impl Iterator<Item = &'a Token> + Clone) -> Lesson {
        let mut known: Option<Rc<Vec<u64>>> = None;
        let mut foreign = None;
        // Those who gained their knowledge together come together, as a rule.
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
        Lesson { known, foreign }
    }

    /// Orders everything that the `givers` did before everything that the `takers` do from now on.
    pub(crate) fn meet(&mut self, givers: &[Token], takers: impl Iterator<Item = u32>) {
        let Lesson { known, foreign } = self.lesson(givers.iter());
        let time = self.next_time();
        for taker in takers {
            let thread = &mut self.threads[taker as usize];
            // A taker that gave as well knows all that it knew before.
            thread.known = Some(Rc::clone(&known));
            thread.foreign.clone_from(&foreign);
            thread.time = time;
        }
        self.refresh();
    }

    /// Orders everything that a lesson is of before everything that the current thread does from now on.
    pub(crate) fn learn(&mut self, lesson: &Lesson) {
        let (id, time) = (self.thread as usize, self.next_time());
        let thread = &mut self.threads[id];
        let mut known = Rc::clone(&lesson.known);
        let entries = Rc::make_mut(&mut known);
        if let Some(own) = &thread.known {
            raise(entries, own);
        }
        entries[id] = entries[id].max(thread.time + 1);
        thread.known = Some(known);
        thread.foreign = merged(thread.foreign.as_ref(), lesson.foreign.as_ref());
        thread.time = time;
        self.refresh();
    }

    /// Orders everything before among all threads of the cluster.
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

    /// Passes on what some of these threads released and picked up to all of them, as a barrier of
    /// a whole block does.
    pub(crate) fn share_fences(&mut self, threads: impl Iterator<Item = u32> + Clone) {
        let mut fences = Fences::default();
        for thread in threads.clone() {
            fences.merge(&self.threads[thread as usize].fences);
        }
        for thread in threads {
            self.threads[thread as usize].fences.clone_from(&fences);
        }
    }

    /// Whether anything that one of these threads of the cluster did is ordered before what the current
    /// thread does.
    pub(crate) fn knows_one_of(&self, mut threads: std::ops::Range<u32>) -> bool {
        let known = self.threads[self.thread as usize].known.as_ref();
        let heard = |known: &Rc<Vec<u64>>| threads.any(|thread| known[thread as usize] > 0);
        self.now.base > self.now.cluster_start || known.is_some_and(heard)
    }

    /// Whether the access that left `stamp`, of this cluster, is ordered before what thread
    /// `other` has come to.
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

/// What there is to know of what some threads did, and knew.
#[derive(Debug)]
pub(crate) struct Lesson {
    known: Rc<Vec<u64>>,
    foreign: Option<Rc<Foreign>>,
}

/// What a thread brings to a barrier.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) thread: u32,
    time: u64,
    known: Option<Rc<Vec<u64>>>,
    foreign: Option<Rc<Foreign>>,
}
