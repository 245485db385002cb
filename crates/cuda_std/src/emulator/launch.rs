//! A launch as the host sees it: shape, limits, progress, statistics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::fault::{Fault, FaultKind};
use super::stamp;
use crate::LaunchBounds;
use crate::common::MAX_SHARED_BYTES;

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
    /// Blocks of a cluster, along x, for a kernel without a cluster size of its own; 1 for none.
    pub cluster_blocks: u32,
    /// The blocks to run, each with all of its cluster; empty for the whole grid. A launch over sparse memory
    /// ([`Device::alloc_sparse`](super::Device::alloc_sparse)) may have too many blocks to run all.
    pub only: Vec<[u32; 3]>,
    /// Shuffles the order of blocks (or clusters), of their threads, and of the threads that a barrier wakes.
    /// `None` is the order of indices.
    pub seed: Option<u64>,
    /// The most steps that the launch may take; a step is a call into this crate.
    pub step_limit: u64,
    /// The most processor time for about 4096 steps. It ends loops that never call into this crate.
    ///
    /// With [`Self::catch_signals`] the loop is interrupted; without, its thread runs on, and the device is
    /// lost.
    pub progress_limit: Duration,
    /// Whether signals and stack overflows in the kernel's own code become faults of the launch. Only on
    /// Linux and x86-64. The first such launch installs handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`
    /// and `SIGURG` in the process, which stay. They pass signals of other origin to the previous handlers.
    /// Without this, the signals act as in the rest of the process: most end it.
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

/// Statistics of a launch.
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
    /// Bytes read from shared memory, other than atomically. An MMA batch counts the bytes of each
    /// warp's operands once.
    pub shared_load_bytes: u64,
    /// Bytes written to shared memory, other than atomically.
    pub shared_store_bytes: u64,
    /// Atomic accesses.
    pub atomics: u64,
    /// Completed barriers: of a block, named, of a cluster, or phases of transaction barriers.
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

/// A counter that advances while a launch makes progress.
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

/// Refuses the launches that `cuLaunchKernel` refuses.
pub(crate) fn validate(
    kernel: &'static str,
    bounds: &LaunchBounds,
    launch: &Launch,
) -> Result<(), Fault> {
    const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
    const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
    const MAX_THREADS: u64 = 1024;
    /// The largest cluster that every device with clusters accepts.
    const MAX_CLUSTER: u32 = 8;
    const {
        assert!(
            MAX_CLUSTER as u64 * MAX_THREADS <= stamp::THREADS as u64,
            "stamps name every thread of a cluster"
        )
    };
    let refuse = |message| Err(Fault::of_launch(kernel, FaultKind::Launch(message)));
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
    if let Some(limit) = bounds.max_threads
        && threads > u64::from(limit)
    {
        return refuse(format!(
            "block has {threads} threads, the kernel's max_threads is {limit}"
        ));
    }
    let (whose, cluster) = match bounds.cluster_blocks {
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
        let kind = FaultKind::SharedMemory { bytes, limit };
        return Err(Fault::of_launch(kernel, kind));
    }
    Ok(())
}

/// Blocks of a cluster of this launch.
pub(crate) fn cluster_blocks(bounds: &LaunchBounds, launch: &Launch) -> u32 {
    bounds.cluster_blocks.unwrap_or(launch.cluster_blocks)
}

/// Registers of each thread at the start of this kernel: the multiprocessor's, divided among all threads of
/// the declared launch bounds. `None` without launch bounds, since the number is then the assembler's choice.
pub(crate) fn registers(bounds: &LaunchBounds) -> Option<u32> {
    /// Registers of a multiprocessor. Four equal parts serve the warps, in units of eight for each thread.
    const REGISTERS: u32 = 1 << 16;
    const PARTS: u32 = 4;
    const UNIT: u32 = 8;
    const MOST: u32 = 256;
    let threads = bounds.max_threads?.next_multiple_of(32 * PARTS);
    let all = threads.checked_mul(bounds.min_blocks?)?;
    Some((REGISTERS.checked_div(all)? / UNIT * UNIT).min(MOST))
}
