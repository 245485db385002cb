//! Runs unchanged kernels on the CPU, and reports undefined behaviour.
//!
//! ```
//! use cuda_std::emulator::{Device, Launch};
//! use cuda_std::prelude::*;
//!
//! #[kernel]
//! pub unsafe fn double(x: *mut f32, len: usize) {
//!     unsafe {
//!         let x = GlobalMut::new(x, len);
//!         let i = thread::index_1d() as usize;
//!         if i < len {
//!             x.store(i, 2.0 * x.load(i));
//!         }
//!     }
//! }
//!
//! let device = Device::new();
//! let x = device.alloc(4 * 1000)?;
//! x.write(0, &1.0_f32.to_ne_bytes().repeat(1000))?;
//! let launch = Launch { grid: [4, 1, 1], block: [256, 1, 1], ..Launch::default() };
//! // SAFETY: `double` accesses its argument only through a view, which is checked.
//! unsafe { device.launch::<double>(&launch, (x.ptr(), 1000))? };
//! let mut bytes = [0; 4];
//! x.read(4 * 999, &mut bytes)?;
//! assert_eq!(f32::from_ne_bytes(bytes), 2.0);
//! # Ok::<(), cuda_std::emulator::Fault>(())
//! ```
//!
//! # What is reported
//! Every [`Fault`] names the kernel, the block and thread, the source line, and the memory with the
//! position in it; races name the other access as well.
//! - global and shared memory: accesses outside of a view or its allocation, misaligned accesses, reads of
//!   bytes that were never written, also by the host;
//! - data races between threads of a block and between blocks, in global and shared memory;
//! - barriers that not all threads reach, or not from the same call; inconsistent use of named barriers;
//! - warp operations with missing lanes, or lanes that disagree;
//! - conflicting accesses to operands and targets of a copy, an asynchronous store or an MMA batch in
//!   flight, and threads and blocks that end before it completes;
//! - races between the blocks of a cluster, and accesses to a block's shared memory that are not ordered
//!   after its start and before its end;
//! - barriers and tiles that no fence has made visible to other blocks, or to the asynchronous proxy;
//! - registers that a warpgroup requests and no other releases;
//! - kernels that never end, panic, or overflow their stack in calls into this crate;
//! - launches beyond a device's limits or the kernel's own bounds.
//!
//! # What is not reported
//! Accesses through raw pointers are not checked. A signal from such an access, or from a stack overflow in
//! the kernel's own code, ends the process. With [`Launch::catch_signals`], on Linux and x86-64, both
//! become faults. Time is not simulated: bank conflicts and divergence cost nothing. Clusters, and blocks
//! of kernels without clusters, run one after another. A kernel never ends if a cluster or block waits for
//! a later one.
//! Instructions that are approximate on the device are exact here (see [`crate::math`]).
//!
//! # Tensors beyond memory
//! Index types that are too narrow fail only for tensors larger than most hosts' memory.
//! [`Device::alloc_computed`] and [`Device::alloc_sparse`] reserve addresses for such tensors, and use
//! memory only for the touched parts; [`Launch::only`] names the blocks to run. Contents can be computed
//! from an element's index, so that a read of a wrong element gives a wrong value.
//!
//! # Layers
//! A module imports only from lines before its own (`host/tests/layers.rs` checks it).
//! 1. `fault`, `math`, `random`, `reserve`, `stamp`, `tensor_sum`: faults, arithmetic, reserved addresses,
//!    stamps of accesses
//! 2. `fiber`, `launch`, `locations`, `region`, `tensor`, `vector_clocks`: the parts of a launch
//! 3. `memory`, `read_sets`, `shared_memory`, `waiting`: global and shared memory, readers of a cell, reasons
//!    to wait
//! 4. `exec`: the running launch: threads, steps, the fault, and the extensions of modules above it
//! 5. `clock`, `numbers`, `panics`, `signals`: happens-before, numbers of threads, panics and signals
//! 6. `access`, `schedule`: the checks of an access; the scheduler of threads
//! 7. `matrix_rows`: the operands of asynchronous operations
//! 8. `async_proxy`, `barriers`, `copies`, `lanes`, `transactions`, `views`: instructions by kind
//! 9. `atomics`, `clusters`, `registers`, `wgmma_in_flight`: instructions that need another kind
//! 10. `mbarriers`, `wgmma`: transaction barriers, which need atomics, clusters and transactions; MMA batches
//! 11. `deadlock`, `transfers`: waiting threads at all barriers; copies that report to a transaction barrier
//! 12. `box_stores`: stores of boxes
//! 13. `functions`, `hopper`, `run`: the functions that kernels call, and the run of a launch
//! 14. `worker`: the OS thread of a device
//! 15. `device`: devices, buffers and launches, for the host

mod access;
mod async_proxy;
mod atomics;
mod barriers;
mod box_stores;
mod clock;
mod clusters;
mod copies;
mod deadlock;
mod device;
mod exec;
mod fault;
mod fiber;
mod functions;
mod hopper;
mod lanes;
mod launch;
mod locations;
mod math;
mod matrix_rows;
mod mbarriers;
mod memory;
mod numbers;
mod panics;
mod random;
mod read_sets;
mod region;
mod registers;
mod reserve;
mod run;
mod schedule;
mod shared_memory;
mod signals;
mod stamp;
mod tensor;
mod tensor_sum;
mod transactions;
mod transfers;
mod vector_clocks;
mod views;
mod waiting;
mod wgmma;
mod wgmma_in_flight;
mod worker;

/// The functions behind the public modules.
pub(crate) mod backend {
    pub(crate) use super::atomics::{AtomicAdd, AtomicInteger};
    pub(crate) use super::functions::*;
    pub(crate) use super::hopper::*;
    pub(crate) use super::math::*;
    pub use super::views::SharedSymbol;
    pub(crate) use super::views::{GlobalView, SharedView};
}

pub use device::{Buffer, Device};
pub use fault::{Earlier, Fault, FaultKind, ThreadId};
pub use launch::{Launch, Stats};
