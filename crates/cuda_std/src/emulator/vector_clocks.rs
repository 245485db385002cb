//! Vector clocks, and the snapshots of them that fences and atomics pass on: see `clock`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::stamp;

/// A vector clock of the threads of one cluster.
#[derive(Debug, Clone)]
struct Part {
    base: u64,
    known: Vec<u64>,
}

/// Vector clocks of several clusters, by the stamp of the cluster's start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foreign(BTreeMap<u64, Rc<Part>>);

impl Foreign {
    pub(crate) fn ordered(&self, stamp: u64) -> bool {
        // A stamp of a later, unknown cluster finds the last known one, whose times are all earlier.
        self.0.range(..=stamp).next_back().is_some_and(|(_, part)| {
            let known = part.known.get(stamp::thread(stamp) as usize);
            stamp < part.base || known.is_some_and(|&known| known > stamp::time(stamp))
        })
    }

    /// The vector clock of the cluster that started at this stamp.
    pub(crate) fn of_cluster(&self, start: u64) -> Option<&[u64]> {
        self.0.get(&start).map(|part| &part.known[..])
    }

    /// Merges a vector clock of a cluster.
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

/// The merge of `a` and `b`.
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

/// The current thread's position in the happens-before relation: all data for the check of an access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// The stamp of the thread's accesses, without a location.
    pub(crate) me: u64,
    pub(crate) launch_start: u64,
    pub(crate) cluster_start: u64,
    /// The last barrier of the whole cluster: everything of this cluster before it is ordered
    /// before everything after.
    pub(crate) base: u64,
    /// The thread's vector clock of its cluster, or null.
    pub(crate) known: *const u64,
    /// The thread's vector clocks of other clusters, or null.
    pub(crate) foreign: *const Foreign,
    /// Whether both are null.
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
    /// Whether the access with `stamp` happens before the current thread's next access.
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

/// The effects of a thread's fences and atomics so far: of block scope, and of device scope.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fences {
    /// The snapshot of the last fence, which atomic writes store.
    released: [Option<Rc<Foreign>>; 2],
    /// The snapshots that atomic reads picked up, which the next fence merges.
    acquired: [Option<Rc<Foreign>>; 2],
}

/// The scope of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Block = 0,
    Device = 1,
}

impl Fences {
    /// The picked-up snapshots that a fence of this scope merges.
    pub(crate) fn pick_up(&mut self, scope: Scope) -> Option<Rc<Foreign>> {
        let own = self.acquired[0].take();
        let wide = match scope {
            Scope::Device => self.acquired[1].take(),
            Scope::Block => self.acquired[1].clone(),
        };
        merged(own.as_ref(), wide.as_ref())
    }

    /// Sets the snapshot for the atomic writes that follow a fence.
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

/// The snapshots that atomic writes stored at a location.
#[derive(Debug, Default)]
pub(crate) struct SyncVariable {
    left: [Option<Rc<Foreign>>; 2],
    /// The block of the first entry (block scope): its cluster's start, and its rank.
    block: u64,
}

/// The kind of an atomic access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    Load,
    Store,
    Modify,
}

impl SyncVariable {
    /// An atomic access by a thread with these fences, in block `block` (see the field).
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
                // A plain atomic write ends earlier release sequences here; a read-modify-write continues
                // them.
                Atomic::Store => self.left[scope].clone_from(&fences.released[scope]),
                Atomic::Modify => {
                    self.left[scope] =
                        merged(self.left[scope].as_ref(), fences.released[scope].as_ref());
                }
            }
        }
    }
}
