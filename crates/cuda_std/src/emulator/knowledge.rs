//! What threads know of each other, and what fences and atomics pass on: see `clock`.

use std::collections::BTreeMap;
use std::rc::Rc;

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

    /// What is known of the threads of the cluster that started at this stamp.
    pub(crate) fn of_cluster(&self, start: u64) -> Option<&[u64]> {
        self.0.get(&start).map(|part| &part.known[..])
    }

    /// Adds the knowledge of a cluster's thread about its own cluster.
    pub(crate) fn learn(&mut self, cluster: u64, base: u64, known: Vec<u64>) {
        self.0.insert(cluster, Rc::new(Part { base, known }));
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

/// Makes each entry of `ours` at least that of `theirs`.
pub(crate) fn raise(ours: &mut [u64], theirs: &[u64]) {
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

/// How far a fence reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Block = 0,
    Device = 1,
}

impl Fences {
    /// What a fence makes known of all that atomic reads picked up.
    pub(crate) fn pick_up(&mut self, scope: Scope) -> Option<Rc<Foreign>> {
        let own = self.acquired[0].take();
        let wide = match scope {
            Scope::Device => self.acquired[1].take(),
            Scope::Block => self.acquired[1].clone(),
        };
        merged(own.as_ref(), wide.as_ref())
    }

    /// A fence leaves what is known there to the atomic writes that follow.
    pub(crate) fn release(&mut self, scope: Scope, snapshot: Foreign) {
        let snapshot = Rc::new(snapshot);
        self.released[0] = Some(Rc::clone(&snapshot));
        if scope == Scope::Device {
            self.released[1] = Some(snapshot);
        }
    }

    pub(crate) fn have_released(&self) -> bool {
        self.released[0].is_some()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
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

/// What an atomic access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    Load,
    Store,
    Modify,
}

impl SyncVariable {
    /// An atomic access by a thread with these fences, in a block that is named as in `block`.
    pub(crate) fn access(&mut self, fences: &mut Fences, kind: Atomic, block: u64) {
        if self.block != block {
            self.block = block;
            self.left[0] = None;
        }
        for scope in 0..2 {
            if kind != Atomic::Store {
                fences.acquired[scope] =
                    merged(fences.acquired[scope].as_ref(), self.left[scope].as_ref());
            }
            match kind {
                Atomic::Load => {}
                // A plain atomic write ends what earlier writers had released here; a
                // read-modify-write carries it on.
                Atomic::Store => self.left[scope].clone_from(&fences.released[scope]),
                Atomic::Modify => {
                    self.left[scope] =
                        merged(self.left[scope].as_ref(), fences.released[scope].as_ref());
                }
            }
        }
    }
}
