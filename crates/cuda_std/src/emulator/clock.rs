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

use std::collections::BTreeMap;
use std::rc::Rc;

use super::atomics::Atomic;
use super::exec::{Exec, Place, with};
use super::region::Region;
use super::stamp;

/// Knowledge about the threads of one cluster.
#[derive(Debug, Clone)]
struct Part {
    base: u64,
    known: Vec<u64>,
}

/// Knowledge about threads of several clusters, by the stamp at which the cluster started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foreign(BTreeMap<u64, Rc<Part>>);

impl Foreign {
    pub(crate) fn ordered(&self, stamp: u64) -> bool {
        // A later cluster than those known also ends up at the last known one, whose times are all
        // too early for it.
        self.0.range(..=stamp).next_back().is_some_and(|(_, part)| {
            let known = part.known.get(stamp::thread(stamp) as usize);
            stamp < part.base || known.is_some_and(|&known| known > stamp::time(stamp))
        })
    }

    fn merge(&mut self, other: &Self) {
        for (&block, theirs) in &other.0 {
            match self.0.get_mut(&block) {
                None => {
                    self.0.insert(block, Rc::clone(theirs));
                }
                Some(ours) if Rc::ptr_eq(ours, theirs) => {}
                Some(ours) => {
                    let ours = Rc::make_mut(ours);
                    ours.base = ours.base.max(theirs.base);
                    raise(&mut ours.known, &theirs.known);
                }
            }
        }
    }
}

fn raise(ours: &mut [u64], theirs: &[u64]) {
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = (*ours).max(*theirs);
    }
}

/// `a` and `b` together.
pub(crate) fn merged(a: Option<&Rc<Foreign>>, b: Option<&Rc<Foreign>>) -> Option<Rc<Foreign>> {
    match (a, b) {
        (Some(a), Some(b)) if !Rc::ptr_eq(a, b) => {
            let mut both = Foreign::clone(a);
            both.merge(b);
            Some(Rc::new(both))
        }
        (a, b) => a.or(b).cloned(),
    }
}

/// Where the current thread is in time: all that the check of an access needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// The stamp of the thread's accesses, without a place.
    pub(crate) me: u64,
    pub(crate) launch_start: u64,
    pub(crate) cluster_start: u64,
    /// The last barrier of the whole cluster: everything of this cluster before it is ordered
    /// before everything after.
    pub(crate) base: u64,
    /// For each thread of the cluster, the time before which it is ordered; or null.
    pub(crate) known: *const u64,
    /// What is known of other clusters; or null.
    pub(crate) foreign: *const Foreign,
    /// Both are null.
    pub(crate) naive: bool,
    pub(crate) thread: u32,
}

impl Default for Now {
    fn default() -> Self {
        Self {
            me: 0,
            launch_start: 0,
            cluster_start: 0,
            base: 0,
            known: std::ptr::null(),
            foreign: std::ptr::null(),
            naive: true,
            thread: 0,
        }
    }
}

impl Now {
    /// Whether the access that left `stamp` comes before everything that the current thread does
    /// now.
    #[inline]
    pub(crate) fn ordered(&self, stamp: u64) -> bool {
        if stamp < self.launch_start {
            return true;
        }
        if stamp < self.cluster_start {
            // SAFETY: null, or the current thread's, which keeps it alive until the next `refresh`.
            return unsafe { self.foreign.as_ref() }.is_some_and(|foreign| foreign.ordered(stamp));
        }
        if stamp < self.base {
            return true;
        }
        let thread = stamp::thread(stamp);
        // SAFETY: `known`, if not null, has an entry for each thread of the cluster, and stamps of
        // this cluster name one.
        thread == self.thread
            || (!self.known.is_null()
                && unsafe { *self.known.add(thread as usize) } > stamp::time(stamp))
    }
}

/// A thread's fences and atomics so far: first of block scope, then of device scope.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fences {
    /// The knowledge at the last fence: what atomic writes leave behind.
    released: [Option<Rc<Foreign>>; 2],
    /// What atomic reads picked up: knowledge from the next fence on.
    acquired: [Option<Rc<Foreign>>; 2],
}

impl Fences {
    fn merge(&mut self, other: &Self) {
        for scope in 0..2 {
            for (ours, theirs) in [
                (&mut self.released[scope], &other.released[scope]),
                (&mut self.acquired[scope], &other.acquired[scope]),
            ] {
                if theirs.is_some() {
                    *ours = merged(ours.as_ref(), theirs.as_ref());
                }
            }
        }
    }
}

/// What atomic writes left at a location.
#[derive(Debug, Default)]
pub(crate) struct SyncVariable {
    left: [Option<Rc<Foreign>>; 2],
    /// The block to which the first entry is meant: its cluster's start, and its rank.
    block: u64,
}

/// How far a fence reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Block = 0,
    Device = 1,
}

/// A fence of the current thread.
pub(crate) fn fence(scope: Scope, place: Place) {
    let exec = with();
    exec.tick(place);
    exec.stats.fences += 1;
    let (id, cluster, base) = (exec.thread as usize, exec.now.cluster_start, exec.now.base);
    let width = exec.threads.len();
    let time = exec.next_time();
    let thread = &mut exec.threads[id];

    let own = thread.fences.acquired[0].take();
    let wide = if scope == Scope::Device {
        thread.fences.acquired[1].take()
    } else {
        thread.fences.acquired[1].clone()
    };
    if let Some(gained) = merged(own.as_ref(), wide.as_ref()) {
        if let Some(part) = gained.0.get(&cluster) {
            let mut known = thread
                .known
                .as_ref()
                .map_or_else(|| vec![0; width], |known| Vec::clone(known));
            raise(&mut known, &part.known);
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
    snapshot.0.insert(cluster, Rc::new(Part { base, known }));
    let snapshot = Rc::new(snapshot);
    thread.fences.released[0] = Some(Rc::clone(&snapshot));
    if scope == Scope::Device {
        thread.fences.released[1] = Some(snapshot);
    }
    thread.time = time;
    exec.refresh();
}

impl Exec {
    /// What an atomic access of the current thread leaves and picks up. The location is its region
    /// and offset.
    #[inline]
    pub(crate) fn synchronise(&mut self, region: *const Region, offset: usize, kind: Atomic) {
        let fences = &self.threads[self.thread as usize].fences;
        if self.sync_variables.is_empty() && fences.released[0].is_none() {
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
        if variable.block != block {
            variable.block = block;
            variable.left[0] = None;
        }
        for scope in 0..2 {
            if kind != Atomic::Store {
                fences.acquired[scope] = merged(
                    fences.acquired[scope].as_ref(),
                    variable.left[scope].as_ref(),
                );
            }
            match kind {
                Atomic::Load => {}
                // A plain atomic write ends what earlier writers had released here; a
                // read-modify-write carries it on.
                Atomic::Store => variable.left[scope].clone_from(&fences.released[scope]),
                Atomic::Modify => {
                    variable.left[scope] = merged(
                        variable.left[scope].as_ref(),
                        fences.released[scope].as_ref(),
                    );
                }
            }
        }
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

    /// Orders everything that the `givers` did before everything that the `takers` do from now on.
    pub(crate) fn meet(&mut self, givers: &[Token], takers: impl Iterator<Item = u32>) {
        let mut known: Option<Rc<Vec<u64>>> = None;
        let mut foreign = None;
        for giver in givers {
            foreign = merged(foreign.as_ref(), giver.foreign.as_ref());
            match (&mut known, &giver.known) {
                (_, None) => {}
                (None, Some(theirs)) => known = Some(Rc::clone(theirs)),
                (Some(ours), Some(theirs)) if Rc::ptr_eq(ours, theirs) => {}
                (Some(ours), Some(theirs)) => raise(Rc::<Vec<u64>>::make_mut(ours), theirs),
            }
        }
        let mut known = known.unwrap_or_else(|| Rc::new(vec![0; self.threads.len()]));
        let entries = Rc::make_mut(&mut known);
        for giver in givers {
            let entry = &mut entries[giver.thread as usize];
            *entry = (*entry).max(giver.time + 1);
        }
        let time = self.next_time();
        for taker in takers {
            let thread = &mut self.threads[taker as usize];
            // A taker that gave as well knows all that it knew before.
            thread.known = Some(Rc::clone(&known));
            thread.foreign = foreign.clone();
            thread.time = time;
        }
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

/// What a thread brings to a barrier.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) thread: u32,
    time: u64,
    known: Option<Rc<Vec<u64>>>,
    foreign: Option<Rc<Foreign>>,
}
