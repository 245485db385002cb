//! The state of a running launch, and access to it from the functions that kernels call.
//!
//! One OS thread runs a launch, and all emulated threads are coroutines on it, so the state needs
//! no locks: a thread-local pointer leads to it. Nothing holds a reference into the state across a
//! suspension.
//!
//! This module has the state that all kinds of instructions share. State of one kind, such as barriers, is an
//! [`Extension`] in its own module.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::fault::{Fault, FaultKind, Place, ThreadId};
use super::fiber::{Fiber, STACK_BYTES};
use super::launch::{Launch, Pulse, Stats};
use super::locations::Places;
use super::memory::Memory;
use super::random::Random;
use super::read_sets::ReadSets;
use super::region::Region;
use super::shared_memory::{self, SharedMemory};
use super::stamp;
use super::vector_clocks::{Fences, Foreign, Now, SyncVariable};
use super::waiting::Wait;

thread_local! {
    static CURRENT: Cell<*mut Exec> = const { Cell::new(std::ptr::null_mut()) };
}

/// Threads of a warpgroup.
pub(crate) const WARPGROUP: u32 = 128;
/// Steps between two checks of limits.
const TICKS: u32 = 4096;

/// One emulated thread.
pub(crate) struct Thread {
    pub(crate) fiber: Fiber,
    /// The lowest stack address that the thread may reach.
    pub(crate) stack_limit: usize,
    pub(crate) wait: Option<Wait>,
    /// The time of the thread's last event: see `stamp`.
    pub(crate) time: u64,
    /// The thread's vector clock since the last barrier of the whole cluster: for each thread, the time
    /// before which its accesses are ordered.
    pub(crate) known: Option<Rc<Vec<u64>>>,
    /// The thread's vector clocks of other clusters.
    pub(crate) foreign: Option<Rc<Foreign>>,
    pub(crate) fences: Fences,
    /// The result of a collective operation for this thread.
    pub(crate) result: [u32; 4],
}

impl Thread {
    /// A thread before its start, in a cluster that starts at `time`.
    pub(crate) fn new(time: u64) -> Self {
        Self {
            fiber: Fiber::default(),
            stack_limit: 0,
            wait: None,
            time,
            known: None,
            foreign: None,
            fences: Fences::default(),
            result: [0; 4],
        }
    }
}

/// A module's own state of the running cluster. It is created at its first use, and dropped when the next
/// cluster begins.
pub(crate) trait Extension: Any {
    /// The state at a cluster's start.
    fn new(exec: &Exec) -> Self;
}

/// A launch in progress.
pub(crate) struct Exec {
    // In use at every access.
    pub(crate) now: Now,
    pub(crate) thread: u32,
    ticks: u32,
    pub(crate) stack_limit: usize,
    pub(crate) loaded: [u64; 2],
    pub(crate) stored: [u64; 2],
    pub(crate) places: Places,

    pub(crate) thread_idx: [u32; 3],
    pub(crate) block_idx: [u32; 3],
    pub(crate) block_dim: [u32; 3],
    pub(crate) grid_dim: [u32; 3],
    pub(crate) block_threads: u32,
    /// Blocks of a cluster. A block of a kernel without clusters is a cluster of its own.
    pub(crate) cluster_blocks: u32,
    /// The first block of the running cluster.
    pub(crate) first_block: [u32; 3],
    /// The number of the current thread's block in the cluster.
    pub(crate) rank: u32,
    /// Distance of the thread numbers of consecutive blocks. Numbers beyond a block's last thread are unused.
    pub(crate) stride: u32,

    pub(crate) kernel: &'static str,
    /// Registers of each thread at the start, if the kernel's launch bounds determine them.
    pub(crate) registers: Option<u32>,
    step_limit: u64,
    steps: u64,
    pulse: Arc<Pulse>,
    pub(crate) memory: Box<Memory>,
    pub(crate) threads: Vec<Thread>,
    /// For each warp, the lanes that exist and have not ended.
    pub(crate) present: Vec<u32>,
    pub(crate) ready: VecDeque<u32>,
    pub(crate) fault: Option<Fault>,
    pub(crate) stats: Stats,
    pub(crate) random: Random,
    pub(crate) shuffled: bool,
    pub(crate) catch_signals: bool,

    /// Clusters started so far: start times and first blocks.
    pub(crate) clusters: Vec<(u64, [u32; 3])>,
    /// Read sets of global and of shared memory.
    pub(crate) read_sets: [ReadSets; 2],
    pub(crate) sync_variables: HashMap<(usize, usize), SyncVariable>,
    pub(crate) shared: SharedMemory,
    extensions: Vec<(TypeId, Box<dyn Any>)>,
}

/// The launch that the calling OS thread runs.
///
/// # Panics
/// Outside of a launch.
#[inline(always)]
pub(crate) fn current() -> *mut Exec {
    let exec = CURRENT.get();
    assert!(
        !exec.is_null(),
        "a device function was called outside of an emulated launch"
    );
    exec
}

/// [`current`], for code that does not suspend while it holds the reference.
#[inline(always)]
pub(crate) fn with<'a>() -> &'a mut Exec {
    // SAFETY: not null, owned by the launch that this OS thread runs, and nobody holds another
    // reference over a call into here.
    unsafe { &mut *current() }
}

/// The launch that the calling OS thread runs, if it runs one.
pub(crate) fn current_or_none() -> Option<*mut Exec> {
    let exec = CURRENT.get();
    (!exec.is_null()).then_some(exec)
}

pub(crate) fn set_current(exec: *mut Exec) {
    CURRENT.set(exec);
}

impl Exec {
    pub(crate) fn new(
        kernel: &'static str,
        launch: &Launch,
        memory: Box<Memory>,
        pulse: Arc<Pulse>,
        cluster_blocks: u32,
        registers: Option<u32>,
    ) -> Self {
        let block_threads: u32 = launch.block.iter().product();
        let stride = match cluster_blocks {
            1 => block_threads,
            // A warpgroup is never of two blocks.
            _ => block_threads.next_multiple_of(WARPGROUP),
        };
        let warps = (cluster_blocks * stride).div_ceil(32) as usize;
        Self {
            now: Now::default(),
            thread: 0,
            ticks: TICKS,
            stack_limit: 0,
            loaded: [0; 2],
            stored: [0; 2],
            places: Places::default(),
            thread_idx: [0; 3],
            block_idx: [0; 3],
            block_dim: launch.block,
            grid_dim: launch.grid,
            block_threads,
            cluster_blocks,
            first_block: [0; 3],
            rank: 0,
            stride,
            kernel,
            registers,
            step_limit: launch.step_limit,
            steps: 0,
            pulse,
            memory,
            threads: Vec::new(),
            present: Vec::new(),
            ready: VecDeque::new(),
            fault: None,
            stats: Stats::default(),
            random: Random(launch.seed.unwrap_or(0)),
            shuffled: launch.seed.is_some(),
            catch_signals: launch.catch_signals,
            clusters: Vec::new(),
            read_sets: [ReadSets::new(warps), ReadSets::new(warps)],
            sync_variables: HashMap::new(),
            shared: SharedMemory::new(cluster_blocks),
            extensions: Vec::new(),
        }
    }

    /// Counts a step. Every function of this crate that an endless loop of a kernel might call begins with
    /// this.
    #[inline(always)]
    pub(crate) fn tick(&mut self, place: Place) {
        self.count_step(place);
        self.check_stack(place);
    }

    /// [`Self::tick`] without [`Self::check_stack`], for plain accesses.
    #[inline(always)]
    pub(crate) fn count_step(&mut self, place: Place) {
        self.ticks -= 1;
        if self.ticks == 0 {
            self.refill(place);
        }
    }

    /// Ends a kernel that recurses too deeply, while there is stack left for the report.
    #[inline(always)]
    pub(crate) fn check_stack(&self, place: Place) {
        let here = 0_u8;
        if std::ptr::from_ref(&here).addr() < self.stack_limit {
            out_of_stack(place);
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, place: Place) {
        self.steps += u64::from(TICKS);
        self.ticks = TICKS;
        self.pulse.beat();
        if self.steps >= self.step_limit {
            fail(
                place,
                FaultKind::StepLimit {
                    limit: self.step_limit,
                },
            );
        }
    }

    /// Steps taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps + u64::from(TICKS - self.ticks)
    }

    /// The next event's time.
    pub(crate) fn next_time(&mut self) -> u64 {
        self.memory.now += 1;
        self.memory.now
    }

    /// The stamp of an access of the current thread at this time.
    #[inline]
    pub(crate) fn stamp(&mut self, place: Place) -> u64 {
        self.now.me | self.places.bits(place)
    }

    /// Recomputes `now` from the current thread's time and vector clock.
    pub(crate) fn refresh(&mut self) {
        let thread = &self.threads[self.thread as usize];
        self.now.thread = self.thread;
        self.now.me = stamp::segment(thread.time, self.thread);
        self.now.known = thread
            .known
            .as_ref()
            .map_or(std::ptr::null(), |known| known.as_ptr());
        self.now.foreign = thread.foreign.as_ref().map_or(std::ptr::null(), Rc::as_ptr);
        self.now.naive = thread.known.is_none() && thread.foreign.is_none();
    }

    /// This block's shared memory at `address`.
    pub(crate) fn shared_at(&self, address: u32) -> Option<&Region> {
        (self.shared.at(address)).filter(|_| shared_memory::rank(address) == self.rank)
    }

    /// Records a fault of the current thread, unless there is one already.
    pub(crate) fn record(&mut self, location: Option<Place>, kind: FaultKind) {
        let thread = ThreadId {
            block: self.block_idx,
            thread: self.thread_idx,
        };
        self.fault.get_or_insert(Fault {
            kernel: Some(self.kernel),
            thread: Some(thread),
            location,
            kind,
        });
    }

    /// A module's state of the running cluster.
    pub(crate) fn extension<E: Extension>(&mut self) -> &mut E {
        let wanted = TypeId::of::<E>();
        let mut states = self.extensions.iter();
        let index = match states.position(|&(of, _)| of == wanted) {
            Some(index) => index,
            None => self.extend::<E>(),
        };
        let state: *mut dyn Any = &raw mut *self.extensions[index].1;
        // SAFETY: it was found by its type, and is borrowed from `self` as long as the result.
        unsafe { &mut *state.cast::<E>() }
    }

    #[cold]
    fn extend<E: Extension>(&mut self) -> usize {
        let state = Box::new(E::new(self));
        self.extensions.push((TypeId::of::<E>(), state));
        self.extensions.len() - 1
    }

    /// Drops the modules' states of the cluster.
    pub(crate) fn drop_extensions(&mut self) {
        self.extensions.clear();
    }
}

/// Suspends the current thread until it is resumed.
pub(crate) fn suspend() {
    let exec = with();
    let yielder = exec.threads[exec.thread as usize].fiber.yielder;
    let yielder = yielder.expect("a thread that runs has started");
    // SAFETY: the yielder lives at the root of the running coroutine.
    unsafe { (*yielder).suspend(()) };
}

/// Ends the launch with a fault of the current thread. No thread of the launch runs after this.
#[cold]
#[inline(never)]
pub(crate) fn fail(place: Place, kind: FaultKind) -> ! {
    with().record(Some(place), kind);
    loop {
        suspend();
    }
}

#[cold]
#[inline(never)]
fn out_of_stack(place: Place) -> ! {
    // Reporting needs stack, which the reserve provides.
    with().stack_limit = 0;
    fail(place, FaultKind::StackOverflow { bytes: STACK_BYTES })
}
