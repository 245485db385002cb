//! Runs a launch, cluster after cluster, the threads of each as coroutines.
//!
//! A block of a kernel without clusters is a cluster of one.
//!
//! Threads run one at a time, each until it waits or ends; then the next ready one runs. A thread that never
//! waits runs to its end, and the next one reuses its warm stack. Clusters run one after another, with their
//! blocks interleaved. The launch and its seed determine everything. Without a seed, threads and clusters run
//! in the order of their indices; with a seed, clusters, the threads at a cluster's start, and those that a
//! barrier wakes are shuffled.
//!
//! A fault ends the launch: the faulting thread suspends for good, and all coroutines are dropped without
//! unwinding. (Values that a kernel's frames own are leaked; kernels usually own none.) Panics are caught at
//! the root of the coroutine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::exec::{self, Exec, Thread, with};
use super::fault::{Fault, FaultKind};
use super::fiber::{Stacks, ThreadCoroutine};
use super::launch::{Launch, Pulse, Stats, cluster_blocks, registers, validate};
use super::memory::Memory;
use super::region::Name;
use super::signals::Guard;
use super::{
    box_stores, clusters, deadlock, lanes, mbarriers, panics, schedule, stamp, wgmma_in_flight,
};
use crate::{Instance, KernelArgs, LaunchBounds};

/// A launch for the worker.
pub(crate) struct Job {
    /// Whether signals of the worker's thread become faults during the launch.
    pub(crate) catch_signals: bool,
    pub(crate) run: Running,
}

/// Returns the memory with the result.
type Running = Box<
    dyn FnOnce(Box<Memory>, &mut Stacks, Arc<Pulse>) -> (Box<Memory>, Result<Stats, Fault>) + Send,
>;

/// Kernel arguments, which may be sent to the worker. Their pointers are addresses of the device's memory,
/// which is sent with them.
struct Arguments<T>(T);

// SAFETY: see above. Kernel arguments are `Copy` and hold no reference that they could drop.
unsafe impl<T> Send for Arguments<T> {}

impl<T: Copy> Arguments<T> {
    fn get(&self) -> T {
        self.0
    }
}

/// A kernel with its arguments.
pub(crate) struct Call {
    pub(crate) kernel: &'static str,
    bounds: LaunchBounds,
    /// Runs one thread.
    thread: Box<dyn Fn() + Send>,
}

impl Call {
    /// # Safety
    /// As for a launch, at the time when the job runs.
    pub(crate) unsafe fn new<A: KernelArgs>(kernel: &Instance<A>, arguments: A) -> Self {
        let (call, arguments) = (kernel.call(), Arguments(arguments));
        Self {
            kernel: kernel.name(),
            bounds: kernel.bounds(),
            // SAFETY: the threads of an emulated launch call it; the rest is the caller's to grant.
            thread: Box::new(move || unsafe { call(arguments.get()) }),
        }
    }

    /// The job that runs the kernel, or the fault of an invalid launch.
    pub(crate) fn job(self, launch: &Launch) -> Result<Job, Fault> {
        if exec::current_or_none().is_some() {
            let problem = FaultKind::Launch("a kernel cannot launch kernels".to_owned());
            return Err(Fault::of_launch(self.kernel, problem));
        }
        validate(self.kernel, &self.bounds, launch)?;
        let cluster_blocks = cluster_blocks(&self.bounds, launch);
        let registers = registers(&self.bounds);
        let launch = launch.clone();
        let catch_signals = launch.catch_signals;
        let run: Running = Box::new(move |mut memory, stacks, pulse| {
            if let Err(fault) = memory.wind_clock() {
                return (memory, Err(fault));
            }
            let mut exec = Box::new(Exec::new(
                self.kernel,
                &launch,
                memory,
                pulse,
                cluster_blocks,
                registers,
            ));
            let result = run(&mut exec, &launch, stacks, &self.thread);
            (exec.memory, result)
        });
        Ok(Job { catch_signals, run })
    }
}

fn run(
    exec: &mut Box<Exec>,
    launch: &Launch,
    stacks: &mut Stacks,
    body: &dyn Fn(),
) -> Result<Stats, Fault> {
    let time = exec.next_time();
    exec.now.launch_start = time * stamp::TIME;
    if launch.shared_bytes > 0 {
        // Within the limit: the launch was validated, and this is the first allocation.
        let bytes = launch.shared_bytes as usize;
        exec.shared
            .lay_out(std::ptr::null(), Name::Dynamic, bytes, 0);
    }
    exec::set_current(&raw mut **exec);
    let result = run_clusters(launch, exec.cluster_blocks, stacks, body);
    exec::set_current(std::ptr::null_mut());
    abandon(exec, stacks);
    let stats = Stats {
        steps: exec.steps(),
        global_load_bytes: exec.loaded[0],
        global_store_bytes: exec.stored[0],
        shared_load_bytes: exec.loaded[1],
        shared_store_bytes: exec.stored[1],
        shared_bytes: exec.shared.bytes,
        ..exec.stats
    };
    result.map(|()| stats)
}

fn run_clusters(
    launch: &Launch,
    cluster_blocks: u32,
    stacks: &mut Stacks,
    body: &dyn Fn(),
) -> Result<(), Fault> {
    /// The most clusters that are shuffled: a longer list would cost too much.
    const MOST_SHUFFLED: u64 = 1 << 20;
    let [x, y, z] = launch.grid.map(u64::from);
    let width = u64::from(cluster_blocks);
    let along_x = x / width;
    let index_of = |&[x_block, y_block, z_block]: &[u32; 3]| {
        let along = u64::from(x_block) / width;
        along + along_x * (u64::from(y_block) + y * u64::from(z_block))
    };
    let mut chosen: Vec<u64> = launch.only.iter().map(index_of).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let clusters = match chosen.len() {
        0 => along_x * y * z,
        some => some as u64,
    };
    let mut order: Vec<u32> = Vec::new();
    if launch.seed.is_some() && clusters <= MOST_SHUFFLED {
        order.extend(0..clusters as u32);
        with().random.shuffle(&mut order);
    }
    for i in 0..clusters {
        let cluster = order.get(i as usize).map_or(i, |&one| u64::from(one));
        let cluster = *chosen.get(cluster as usize).unwrap_or(&cluster);
        let first = [
            cluster % along_x * width,
            cluster / along_x % y,
            cluster / (along_x * y),
        ];
        begin_cluster(with(), first.map(|index| index as u32));
        run_cluster(stacks, body)?;
    }
    Ok(())
}

/// Sets up the next cluster: fresh shared memory, barriers and threads.
fn begin_cluster(exec: &mut Exec, first_block: [u32; 3]) {
    let time = exec.next_time();
    exec.first_block = first_block;
    exec.now.cluster_start = time * stamp::TIME;
    exec.now.base = exec.now.cluster_start;
    exec.clusters.push((time, first_block));
    exec.shared.forget();
    exec.read_sets[1].clear();
    exec.drop_extensions();
    let numbers = 0..exec.cluster_blocks * exec.stride;
    exec.threads.clear();
    exec.threads
        .extend(numbers.clone().map(|_| Thread::new(time)));
    let mut order = Vec::with_capacity(numbers.len());
    exec.present.clear();
    exec.present.resize(numbers.len().div_ceil(32), 0);
    for thread in numbers {
        if exec.in_block(thread) < exec.block_threads {
            order.push(thread);
            exec.present[thread as usize / 32] |= 1 << (thread % 32);
        }
    }
    exec.stats.blocks += u64::from(exec.cluster_blocks);
    exec.stats.threads += order.len() as u64;
    schedule::wake(exec, &mut order);
}

/// Runs all threads of the current cluster. `body` is the kernel for one thread.
fn run_cluster(stacks: &mut Stacks, body: &dyn Fn()) -> Result<(), Fault> {
    let mut done = 0;
    while let Some(thread) = with().ready.pop_front() {
        if resume(stacks, body, thread)? {
            done += 1;
            lanes::check_exit(with(), thread)?;
            wgmma_in_flight::check_end(with(), thread)?;
            box_stores::check_end(with(), thread)?;
            clusters::leave(with(), thread)?;
            mbarriers::check_end(with(), thread)?;
        }
    }
    let exec = with();
    if done < exec.cluster_blocks * exec.block_threads {
        return Err(deadlock::report(exec));
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
        let _guard = exec.catch_signals.then(|| Guard::enter(&coroutine));
        coroutine.resume(())
    };
    let exec = with();
    let ended = matches!(result, CoroutineResult::Return(()));
    if exec.fault.is_some() || ended {
        stacks.recycle(coroutine);
    } else {
        exec.threads[thread as usize].fiber.coroutine = Some(coroutine);
    }
    match exec.fault.take() {
        Some(fault) => Err(fault),
        None => {
            if ended {
                exec.present[thread as usize / 32] &= !(1 << (thread % 32));
            }
            Ok(ended)
        }
    }
}

fn start(exec: &mut Exec, stacks: &mut Stacks, body: &dyn Fn()) -> Result<ThreadCoroutine, Fault> {
    let (stack, limit) = stacks.take()?;
    exec.threads[exec.thread as usize].stack_limit = limit;
    let run = move |yielder: &Yielder<(), ()>, ()| {
        let exec = with();
        exec.threads[exec.thread as usize].fiber.yielder = Some(yielder);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
            panics::note(with(), &*payload);
        }
    };
    // SAFETY: `body` outlives the coroutine, which `run` drops before it returns.
    Ok(unsafe { Coroutine::with_stack_unchecked(stack, run) })
}

/// Drops the remaining coroutines of a cluster.
fn abandon(exec: &mut Exec, stacks: &mut Stacks) {
    for thread in &mut exec.threads {
        if let Some(coroutine) = thread.fiber.coroutine.take() {
            stacks.recycle(coroutine);
        }
    }
}
