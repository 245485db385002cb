//! The calling threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use crate::interface::Scheduler;

static SCHEDULER: RwLock<Option<Scheduler>> = RwLock::new(None);

pub(crate) fn schedule(scheduler: Scheduler) {
    *SCHEDULER.write().unwrap_or_else(PoisonError::into_inner) = Some(scheduler);
}

pub(crate) fn scheduler() -> Option<Scheduler> {
    *SCHEDULER.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the calling thread.
pub(crate) fn current() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local!(static OWN: Cell<u64> = Cell::new(THREADS.fetch_add(1, Relaxed)));
    match scheduler() {
        Some(scheduler) => (scheduler.thread)(),
        None => OWN.get(),
    }
}
