//! One launch from validation to the last block.

use std::sync::Arc;

use super::device::{Launch, Memory, Stats};
use super::exec::{self, Exec};
use super::fault::{Fault, FaultKind};
use super::region::{Name, Region};
use super::schedule::{self, Stacks};
use super::stamp;
use super::worker::Pulse;
use crate::Kernel;
use crate::shared::MAX_SHARED_BYTES;

/// Runs on the worker: the memory comes back with the result.
pub(crate) type Job = Box<
    dyn FnOnce(Box<Memory>, &mut Stacks, Arc<Pulse>) -> (Box<Memory>, Result<Stats, Fault>) + Send,
>;

/// Refuses what `cuLaunchKernel` refuses.
pub(crate) fn validate<K: Kernel>(launch: &Launch) -> Result<(), Fault> {
    const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
    const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
    const MAX_THREADS: u64 = 1024;
    let refuse = |message| {
        let fault = Fault::on_host(FaultKind::Launch(message));
        Err(Fault {
            kernel: Some(K::NAME),
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
    if let Some(limit) = K::MAX_THREADS
        && threads > u64::from(limit)
    {
        return refuse(format!(
            "block has {threads} threads, the kernel's max_threads is {limit}"
        ));
    }
    if launch.shared_bytes > MAX_SHARED_BYTES {
        let (bytes, limit) = (u64::from(launch.shared_bytes), u64::from(MAX_SHARED_BYTES));
        let fault = Fault::on_host(FaultKind::SharedMemory { bytes, limit });
        return Err(Fault {
            kernel: Some(K::NAME),
            ..fault
        });
    }
    Ok(())
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

pub(crate) fn job<K: Kernel>(launch: Launch, arguments: K::Args) -> Job {
    let arguments = Arguments(arguments);
    Box::new(move |memory, stacks, pulse| {
        // SAFETY: the threads of an emulated launch call it.
        let body = move || unsafe { K::call(arguments.get()) };
        run(K::NAME, &launch, memory, stacks, pulse, &body)
    })
}

fn run(
    kernel: &'static str,
    launch: &Launch,
    mut memory: Box<Memory>,
    stacks: &mut Stacks,
    pulse: Arc<Pulse>,
    body: &dyn Fn(),
) -> (Box<Memory>, Result<Stats, Fault>) {
    memory.wind_clock();
    let mut exec = Box::new(Exec::new(kernel, launch, memory, pulse));
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
    exec::set_current(&raw mut *exec);
    let result = run_blocks(launch, stacks, body);
    exec::set_current(std::ptr::null_mut());
    schedule::abandon(&mut exec, stacks);
    let stats = Stats {
        steps: exec.steps(),
        global_load_bytes: exec.loaded[0],
        global_store_bytes: exec.stored[0],
        shared_load_bytes: exec.loaded[1],
        shared_store_bytes: exec.stored[1],
        shared_bytes: exec.shared_bytes,
        ..exec.stats
    };
    (exec.memory, result.map(|()| stats))
}

fn run_blocks(launch: &Launch, stacks: &mut Stacks, body: &dyn Fn()) -> Result<(), Fault> {
    /// Beyond this many blocks, a list of them would cost more than a shuffled order is worth.
    const MOST_SHUFFLED: u64 = 1 << 20;
    let [x, y, z] = launch.grid.map(u64::from);
    let blocks = x * y * z;
    let mut order: Vec<u32> = Vec::new();
    if launch.seed.is_some() && blocks <= MOST_SHUFFLED {
        order.extend(0..blocks as u32);
        exec::with().random.shuffle(&mut order);
    }
    for i in 0..blocks {
        let block = order.get(i as usize).map_or(i, |&block| u64::from(block));
        let index = [block % x, block / x % y, block / (x * y)].map(|index| index as u32);
        schedule::begin_block(exec::with(), index);
        schedule::run_block(stacks, body)?;
    }
    Ok(())
}

impl Exec {
    /// Lays out another piece of shared memory, behind what is there.
    pub(crate) fn lay_out(&mut self, key: *const (), name: Name, bytes: usize) -> *const Region {
        /// Devices keep the first KiB for themselves; here it catches confused addresses.
        const FIRST_ADDRESS: usize = 1024;
        const ALIGNMENT: usize = 128;
        self.shared_bytes += bytes as u64;
        let base = self
            .shared
            .last()
            .map_or(FIRST_ADDRESS, |(_, region)| region.base + region.len());
        let region = Region::new(name, bytes, Some(base.next_multiple_of(ALIGNMENT)));
        let region = Box::new(region.expect("a few hundred KiB of memory"));
        let pointer = &raw const *region;
        self.shared.push((key, region));
        pointer
    }
}
