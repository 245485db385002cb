//! One launch from validation to the last block.

use std::sync::Arc;

use super::device::{Launch, Memory, Stats};
use super::exec::{self, Exec};
use super::fault::{Fault, FaultKind};
use super::region::Name;
use super::schedule::{self, Stacks};
use super::stamp;
use super::worker::Pulse;
use crate::shared::MAX_SHARED_BYTES;
use crate::{Instance, KernelArgs};

/// Runs on the worker: the memory comes back with the result.
pub(crate) type Job = Box<
    dyn FnOnce(Box<Memory>, &mut Stacks, Arc<Pulse>) -> (Box<Memory>, Result<Stats, Fault>) + Send,
>;

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
    if exec::current_or_none().is_some() {
        return refuse("a kernel cannot launch kernels".to_owned());
    }
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
    let cluster = cluster_blocks(kernel);
    if !(1..=MAX_CLUSTER).contains(&cluster) {
        return refuse(format!(
            "the kernel's cluster_blocks is {cluster}, limit 1..={MAX_CLUSTER}"
        ));
    }
    if !launch.grid[0].is_multiple_of(cluster) {
        let blocks = launch.grid[0];
        return refuse(format!(
            "grid x is {blocks}, no multiple of the kernel's cluster_blocks {cluster}"
        ));
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

/// Blocks of a cluster of this kernel.
fn cluster_blocks<A: KernelArgs>(kernel: &Instance<A>) -> u32 {
    kernel.bounds().cluster_blocks.unwrap_or(1)
}

/// Pointers may travel to the worker: they are addresses of the device's memory, which travels with
/// them.
struct Arguments<T>(T);

// SAFETY: see above. Kernel arguments are `Copy` and hold no reference that they could drop.
unsafe impl<T> Send for Arguments<T> {}

impl<T: Copy> Arguments<T> {
    fn get(&self) -> T {
        self.0
    }
}

pub(crate) fn job<A: KernelArgs>(kernel: &Instance<A>, launch: Launch, arguments: A) -> Job {
    let arguments = Arguments(arguments);
    let (name, call, cluster_blocks) = (kernel.name(), kernel.call(), cluster_blocks(kernel));
    Box::new(move |mut memory, stacks, pulse| {
        memory.wind_clock();
        // SAFETY: the threads of an emulated launch call it.
        let body = move || unsafe { call(arguments.get()) };
        let mut exec = Box::new(Exec::new(name, &launch, memory, pulse, cluster_blocks));
        let result = run(&mut exec, &launch, stacks, &body);
        (exec.memory, result)
    })
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
        // Cannot exceed the limit: the launch was validated, and this is the first piece.
        exec.lay_out(
            std::ptr::null(),
            Name::Dynamic,
            launch.shared_bytes as usize,
        );
    }
    exec::set_current(&raw mut **exec);
    let result = run_clusters(launch, exec.cluster_blocks, stacks, body);
    exec::set_current(std::ptr::null_mut());
    schedule::abandon(exec, stacks);
    let stats = Stats {
        steps: exec.steps(),
        global_load_bytes: exec.loaded[0],
        global_store_bytes: exec.stored[0],
        shared_load_bytes: exec.loaded[1],
        shared_store_bytes: exec.stored[1],
        shared_bytes: exec.shared_bytes,
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
    /// Beyond this many clusters, a list of them would cost more than a shuffled order is worth.
    const MOST_SHUFFLED: u64 = 1 << 20;
    let [x, y, z] = launch.grid.map(u64::from);
    let width = u64::from(cluster_blocks);
    let along_x = x / width;
    let clusters = along_x * y * z;
    let mut order: Vec<u32> = Vec::new();
    if launch.seed.is_some() && clusters <= MOST_SHUFFLED {
        order.extend(0..clusters as u32);
        exec::with().random.shuffle(&mut order);
    }
    for i in 0..clusters {
        let cluster = order.get(i as usize).map_or(i, |&one| u64::from(one));
        let first = [
            cluster % along_x * width,
            cluster / along_x % y,
            cluster / (along_x * y),
        ];
        schedule::begin_cluster(exec::with(), first.map(|index| index as u32));
        schedule::run_cluster(stacks, body)?;
    }
    Ok(())
}
