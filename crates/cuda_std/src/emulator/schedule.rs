//! The scheduler: suspends threads that wait, and wakes them.

use super::exec::{Exec, suspend, with};
use super::fault::{Fault, FaultKind, Place};
use super::waiting::{Wait, Waiting};

/// Suspends the current thread until another wakes it.
pub(crate) fn wait(what: Waiting, place: Place) {
    let exec = with();
    let thread = exec.thread as usize;
    exec.threads[thread].wait = Some(Wait { what, place });
    suspend();
    with().threads[thread].wait = None;
}

/// Yields to the other ready threads.
pub(crate) fn step_aside() {
    let exec = with();
    if !exec.ready.is_empty() {
        let thread = exec.thread;
        exec.ready.push_back(thread);
        suspend();
    }
}

/// Makes threads ready; with a seed, in a random order.
pub(crate) fn wake(exec: &mut Exec, threads: &mut [u32]) {
    if exec.shuffled {
        exec.random.shuffle(threads);
    }
    exec.ready.extend(threads.iter());
}

/// A fault of a thread that is not running.
pub(crate) fn fault_of(exec: &Exec, thread: u32, place: Option<Place>, kind: FaultKind) -> Fault {
    Fault {
        kernel: Some(exec.kernel),
        thread: Some(exec.id_of(thread)),
        location: place,
        kind,
    }
}
