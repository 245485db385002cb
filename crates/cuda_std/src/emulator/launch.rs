//! What the host says about a launch and is told of it: shape, limits, progress, statistics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::fault::{Fault, FaultKind};
use super::stamp;
use crate::common::MAX_SHARED_BYTES;
use crate::{Instance, KernelArgs};

/// The shape of a launch, and how to run it.
///
/// ```
/// # use cuda_std::emulator::Launch;
/// let launch = Launch { grid: [4, 1, 1], block: [256, 1, 1], ..Launch::default() };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Blocks of a cluster, along x, of a kernel that does not say it itself; 1 for none.
    pub cluster_blocks: u32,
    /// The blocks that run, each with all of its cluster; those of the whole grid if none is named. A launch
    /// over sparse memory ([`Device::alloc_sparse`](super::Device::alloc_sparse)) has more than could ever
    /// run.
    pub only: Vec<[u32; 3]>,
    /// Shuffles the order in which blocks (or clusters), their threads, and the threads that a
    /// barrier wakes run. `None` is the order of indices.
    pub seed: Option<u64>,
    /// The most steps that the launch may take; a step is a call into this crate.
    pub step_limit: u64,
    /// The most processor time that may pass without about 4096 steps. It ends loops that never
    /// call into this crate.
    ///
    /// With [`Self::catch_signals`] the loop is ended; without, its thread runs on, and the device is
    /// lost.
    pub progress_limit: Duration,
    /// Whether what the processor refuses in the kernel's own code, and a stack that it overflows,
    /// becomes a fault of the launch; on Linux and x86-64, nowhere else. For this the first such
    /// launch puts handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL` and `SIGURG` into the process,
    /// which stay; what is not of such a launch they leave to the handlers that were there before.
    /// Without it those signals do what they do in the rest of the process: most end it.
    pub catch_signals: bool,
}

impl Default for Launch {
    /// One thread, no shared memory, no clusters, natural order, 2⁴⁰ steps, 10 seconds, signals left alone.
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster_blocks: 1,
            only: Vec::new(),
            seed: None,
            step_limit: 1 << 40,
            progress_limit: Duration::from_secs(10),
            catch_signals: false,
        }
    }
}

/// What a launch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls into this crate that count as steps.
    pub steps: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Threads that ran.
    pub threads: u64,
    /// Bytes read from global memory, other than atomically. The source of a `cp.async` counts.
    pub global_load_bytes: u64,
    /// Bytes written to global memory, other than atomically.
    pub global_store_bytes: u64,
    /// Bytes read from shared memory, other than atomically.
    pub shared_load_bytes: u64,
    /// Bytes written to shared memory, other than atomically.
    pub shared_store_bytes: u64,
    /// Atomic accesses.
    pub atomics: u64,
    /// Barriers that opened: of a block, named, of a cluster, or phases of transaction barriers.
    pub barriers: u64,
    /// Warp operations, each counted once for all its lanes.
    pub warp_operations: u64,
    /// Fences, counted per thread.
    pub fences: u64,
    /// `cp.async` and bulk copies and `st.async` stores, counted per thread.
    pub async_copies: u64,
    /// Bytes of shared memory that a block had, static and dynamic.
    pub shared_bytes: u64,
}

/// Beats while a launch makes progress.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    pub(crate) fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Refuses what `cuLaunchKernel` refuses.
pub(crate) fn validate<A: KernelArgs>(kernel: &Instance<A>, launch: &Launch) -> Result<(), Fault> {
    const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
    const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
    const MAX_THREADS: u64 = 1024;
    /// What every device with clusters accepts.
    const MAX_CLUSTER: u32 = 8;
    const {
        assert!(
            MAX_CLUSTER as u64 * MAX_THREADS <= stamp::THREADS as u64,
            "stamps name every thread of a cluster"
        )
    };
    let refuse = |message| {
        let fault = Fault::on_host(FaultKind::Launch(message));
        Err(Fault {
            kernel: Some(kernel.name()),
            ..fault
        })
    };
    for (what, sizes, limits) in [
        ("grid", launch.grid, MAX_GRID),
        ("block", launch.block, MAX_BLOCK),
    ] {
        for (axis, (size, limit)) in ["x", "y", "z"].iter().zip(sizes.into_iter().zip(limits)) {
            if size == 0 || size > limit {
                return refuse(format!("{what} {axis} is {size}, limit 1..={limit}"));
            }
        }
    }
    let threads: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
    if threads > MAX_THREADS {
        return refuse(format!("block has {threads} threads, limit {MAX_THREADS}"));
    }
    if let Some(limit) = kernel.bounds().max_threads
        && threads > u64::from(limit)
    {
        return refuse(format!(
            "block has {threads} threads, the kernel's max_threads is {limit}"
        ));
    }
    let (whose, cluster) = match kernel.bounds().cluster_blocks {
        Some(cluster) if ![1, cluster].contains(&launch.cluster_blocks) => {
            let asked = launch.cluster_blocks;
            return refuse(format!(
                "the launch's cluster_blocks is {asked}, the kernel's is {cluster}"
            ));
        }
        Some(cluster) => ("kernel", cluster),
        None => ("launch", launch.cluster_blocks),
    };
    if !(1..=MAX_CLUSTER).contains(&cluster) {
        return refuse(format!(
            "the {whose}'s cluster_blocks is {cluster}, limit 1..={MAX_CLUSTER}"
        ));
    }
    if !launch.grid[0].is_multiple_of(cluster) {
        let blocks = launch.grid[0];
        return refuse(format!(
            "grid x is {blocks}, no multiple of the {whose}'s cluster_blocks {cluster}"
        ));
    }
    let outside = |block: &&[u32; 3]| block.iter().zip(launch.grid).any(|(&at, size)| at >= size);
    if let Some(block) = launch.only.iter().find(outside) {
        let grid = launch.grid;
        return refuse(format!("block {block:?} is to run, the grid is {grid:?}"));
    }
    if launch.shared_bytes > MAX_SHARED_BYTES {
        let (bytes, limit) = (u64::from(launch.shared_bytes), u64::from(MAX_SHARED_BYTES));
        let fault = Fault::on_host(FaultKind::SharedMemory { bytes, limit });
        return Err(Fault {
            kernel: Some(kernel.name()),
            ..fault
        });
    }
    Ok(())
}

/// Blocks of a cluster of this launch.
pub(crate) fn cluster_blocks<A: KernelArgs>(kernel: &Instance<A>, launch: &Launch) -> u32 {
    let declared = kernel.bounds().cluster_blocks;
    declared.unwrap_or(launch.cluster_blocks)
}

/// The registers that each thread of this kernel starts with: as many as the multiprocessor's for all threads
/// that it declares to be there. Without the declarations the assembler does not say.
pub(crate) fn registers<A: KernelArgs>(kernel: &Instance<A>) -> Option<u32> {
    /// Registers of a multiprocessor, which deals them out to warps in four parts alike, eight for each
    /// thread at a time.
    const REGISTERS: u32 = 1 << 16;
    const PARTS: u32 = 4;
    const UNIT: u32 = 8;
    const MOST: u32 = 256;
    let bounds = kernel.bounds();
    let threads = bounds.max_threads?.next_multiple_of(32 * PARTS);
    let all = threads.checked_mul(bounds.min_blocks?)?;
    Some((REGISTERS.checked_div(all)? / UNIT * UNIT).min(MOST))
}
