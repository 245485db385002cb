//! Runs the threads of a cluster as coroutines.
//!
//! A block of a kernel without clusters is a cluster of one.
//!
//! Threads run one at a time, each until it has to wait or ends; then the next one that is ready. A
//! thread that never waits runs straight through, on a stack that the next one takes over while it
//! is warm. Clusters run one after another, the blocks of one interleaved. Everything is determined by the launch and its seed:
//! without one, threads and clusters run in the order of their indices; with one, clusters, the
//! threads at a cluster's start, and those that a barrier wakes are shuffled.
//!
//! A fault ends the launch: the thread at fault suspends for good, and all coroutines are dropped
//! without unwinding. (What a kernel's frames own is leaked then; kernels own nothing, as a rule.)
//! Panics are caught at the root of the coroutine.

use std::panic::{AssertUnwindSafe, catch_unwind};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::barriers::Barriers;
use super::exec::{Exec, Place, Thread, fail, with};
use super::fault::{Fault, FaultKind};
use super::shared_memory::Piece;
use super::signals::Guard;
use super::waiting::Wait;
use super::{clusters, lanes, panics};

/// Bytes of an emulated thread's stack.
pub(crate) const STACK_BYTES: usize = 256 * 1024;
/// Bytes that this crate's own functions may need when a kernel calls them.
const RESERVE_BYTES: usize = 48 * 1024;

type ThreadCoroutine = Coroutine<(), (), (), DefaultStack>;

/// The coroutine of a thread that has started and not ended.
#[derive(Default)]
pub(crate) struct Fiber {
    coroutine: Option<ThreadCoroutine>,
    yielder: Option<*const Yielder<(), ()>>,
}

/// Stacks that no coroutine uses.
#[derive(Default)]
pub(crate) struct Stacks(Vec<DefaultStack>);

/// Runs all threads of the current cluster. `body` is the kernel for one thread.
pub(crate) fn run_cluster(stacks: &mut Stacks, body: &dyn Fn()) -> Result<(), Fault> {
    let mut done = 0;
    while let Some(thread) = with().ready.pop_front() {
        if resume(stacks, body, thread)? {
            done += 1;
            lanes::check_exit(with(), thread)?;
            clusters::leave(with(), thread)?;
        }
    }
    let exec = with();
    if done < exec.cluster_blocks * exec.block_threads {
        return Err(super::deadlock::report(exec));
    }
    Ok(())
}

/// Runs one thread until it waits (`false`) or ends (`true`).
fn resume(stacks: &mut Stacks, body: &dyn Fn(), thread: u32) -> Result<bool, Fault> {
    let exec = with();
    exec.enter(thread);
    let mut coroutine = match exec.threads[thread as usize].fiber.coroutine.take() {
        Some(coroutine) => coroutine,
        None => start(exec, stacks, body)?,
    };
    exec.stack_limit = exec.threads[thread as usize].stack_limit;
    let result = {
        let _guard = Guard::enter(&coroutine);
        coroutine.resume(())
    };
    let exec = with();
    let ended = matches!(result, CoroutineResult::Return(()));
    if exec.fault.is_some() || ended {
        recycle(stacks, coroutine);
    } else {
        exec.threads[thread as usize].fiber.coroutine = Some(coroutine);
    }
    match exec.fault.take() {
        Some(fault) => Err(fault),
        None => {
            exec.threads[thread as usize].done = ended;
            Ok(ended)
        }
    }
}

fn start(exec: &mut Exec, stacks: &mut Stacks, body: &dyn Fn()) -> Result<ThreadCoroutine, Fault> {
    let stack = match stacks.0.pop() {
        Some(stack) => stack,
        None => DefaultStack::new(STACK_BYTES).map_err(|error| {
            let message = format!("no stack for another emulated thread: {error}");
            Fault::on_host(FaultKind::Launch(message))
        })?,
    };
    exec.threads[exec.thread as usize].stack_limit =
        stack.base().get() - STACK_BYTES + RESERVE_BYTES;
    let run = move |yielder: &Yielder<(), ()>, ()| {
        let exec = with();
        exec.threads[exec.thread as usize].fiber.yielder = Some(yielder);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
            panics::note(with(), &*payload);
        }
    };
    // SAFETY: `body` outlives the coroutine, which `run_launch` drops before it returns.
    Ok(unsafe { Coroutine::with_stack_unchecked(stack, run) })
}

/// Takes a coroutine's stack back, wherever it stands.
fn recycle(stacks: &mut Stacks, mut coroutine: ThreadCoroutine) {
    // SAFETY: the launch is over, or the coroutine is. Frames that are discarded belong to a
    // kernel, which owns nothing that must be dropped for soundness, and to this crate's functions,
    // which hold nothing across a suspension.
    unsafe { coroutine.force_reset() };
    stacks.0.push(coroutine.into_stack());
}

/// Drops what is left of a cluster.
pub(crate) fn abandon(exec: &mut Exec, stacks: &mut Stacks) {
    for thread in &mut exec.threads {
        if let Some(coroutine) = thread.fiber.coroutine.take() {
            recycle(stacks, coroutine);
        }
    }
}

/// Suspends the current thread until someone wakes it.
pub(crate) fn wait(reason: Wait) {
    let exec = with();
    let thread = exec.thread as usize;
    exec.threads[thread].wait = Some(reason);
    suspend();
    with().threads[thread].wait = None;
}

/// Lets the other threads that are ready run first.
pub(crate) fn step_aside() {
    let exec = with();
    if !exec.ready.is_empty() {
        let thread = exec.thread;
        exec.ready.push_back(thread);
        suspend();
    }
}

fn suspend() {
    let exec = with();
    let yielder = exec.threads[exec.thread as usize].fiber.yielder;
    let yielder = yielder.expect("a thread that runs has started");
    // SAFETY: the yielder lives at the root of the running coroutine.
    unsafe { (*yielder).suspend(()) };
}

/// Suspends the current thread for good.
pub(crate) fn leave() -> ! {
    loop {
        suspend();
    }
}

#[cold]
#[inline(never)]
pub(crate) fn out_of_stack(place: Place) -> ! {
    // What follows needs stack of its own, which the reserve provides.
    with().stack_limit = 0;
    fail(place, FaultKind::StackOverflow { bytes: STACK_BYTES })
}

/// Makes threads ready; with a seed, in a random order.
pub(crate) fn wake(exec: &mut Exec, threads: &mut [u32]) {
    if exec.shuffled {
        exec.random.shuffle(threads);
    }
    exec.ready.extend(threads.iter());
}

/// Sets up the next cluster: fresh shared memory, barriers and threads.
pub(crate) fn begin_cluster(exec: &mut Exec, first_block: [u32; 3]) {
    let time = exec.next_time();
    exec.first_block = first_block;
    exec.now.cluster_start = time * super::stamp::TIME;
    exec.now.base = exec.now.cluster_start;
    exec.clusters.push((time, first_block));
    for region in exec.shared.iter().flat_map(Piece::regions) {
        region.forget();
    }
    exec.read_sets[1].clear();
    exec.barriers.iter_mut().for_each(Barriers::clear);
    exec.mbarriers.clear();
    exec.cluster.clear();
    exec.chains.clear();
    for meetings in &mut exec.meetings {
        meetings.clear();
    }
    let numbers = 0..exec.cluster_blocks * exec.stride;
    exec.threads.clear();
    exec.threads
        .extend(numbers.clone().map(|_| Thread::new(time)));
    let mut order = Vec::with_capacity(numbers.len());
    for thread in numbers {
        if exec.in_block(thread) < exec.block_threads {
            order.push(thread);
        } else {
            exec.threads[thread as usize].done = true;
        }
    }
    exec.stats.blocks += u64::from(exec.cluster_blocks);
    exec.stats.threads += order.len() as u64;
    wake(exec, &mut order);
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
