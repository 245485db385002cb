//! Runs kernels on the CPU, unchanged, and reports what a GPU leaves undefined.
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
//! // SAFETY: `double` touches what it is given through a view only, which is checked.
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
//! - global and shared memory: accesses outside of a view or its allocation, misaligned ones, reads
//!   of bytes that nobody wrote, also by the host;
//! - data races between threads of a block and between blocks, in global and shared memory;
//! - barriers that not all threads reach, or not from the same call; named barriers used
//!   inconsistently;
//! - warp operations with missing lanes, or lanes that disagree;
//! - touching what a copy, an asynchronous store or a chain of `wgmma` in flight reads or writes, and ends of
//!   blocks and threads before it is over;
//! - races between the blocks of a cluster, and accesses to a block's shared memory that nothing
//!   orders after its start and before its end;
//! - barriers and tiles that no fence has shown to other blocks, or to the asynchronous proxy;
//! - registers that a warpgroup takes and nobody gives back;
//! - kernels that never end, panic, or overflow their stack in calls into this crate;
//! - launches beyond a device's limits or the kernel's own bounds.
//!
//! # What is not
//! Accesses through raw pointers are not checked. One that the processor refuses ends the process,
//! as a stack overflow in the kernel's own code does; with [`Launch::catch_signals`], on Linux and
//! x86-64, both become faults. Bank conflicts, divergence and the like cost nothing here. Clusters, and
//! blocks of kernels without them, run one after another, so a kernel in which one waits for a
//! later one never ends. Instructions that are approximate on the device are exact here (see
//! [`crate::math`]).
//!
//! # Tensors beyond memory
//! An index that is too narrow goes wrong where tensors are larger than most hosts' memory.
//! [`Device::alloc_computed`] and [`Device::alloc_sparse`] give addresses for them, of which memory is what
//! is touched, and [`Launch::only`] names the blocks that run. What stands at an element can follow from its
//! number, so that what is read elsewhere is something else.
//!
//! # Layers
//! A module imports only from lines before its own (`host/tests/layers.rs` sees to it).
//! 1. `fault`, `math`, `random`, `reserve`, `stamp`, `tensor_sum`: faults, arithmetic, addresses, and stamps
//!    of accesses; nothing of a launch
//! 2. `fiber`, `knowledge`, `launch`, `places`, `region`, `tensor`: the parts that a launch is made of, each
//!    by itself
//! 3. `memory`, `read_sets`, `shared_memory`, `waiting`: global and shared memory, who read what, why threads
//!    wait
//! 4. `exec`: the running launch: its threads, steps and fault, and room for the state that modules above it
//!    bring
//! 5. `clock`, `numbers`, `panics`, `signals`: what is ordered, which thread is which, what ends a kernel
//!    from outside
//! 6. `access`, `schedule`: the checks of an access; threads that wait, and that go on
//! 7. `async_proxy`, `barriers`, `copies`, `flights`, `lanes`, `transactions`, `views`: the kinds of
//!    instructions, one by one
//! 8. `atomics`, `chains`, `clusters`, `registers`: instructions that need another kind
//! 9. `mbarriers`: transaction barriers, which see atomics, clusters and what is on its way
//! 10. `deadlock`, `transfers`: who waits at any kind of barrier; what reports to a transaction barrier
//! 11. `functions`, `hopper`, `run`: what kernels call, and what calls kernels
//! 12. `worker`: the OS thread of a device
//! 13. `device`: devices, buffers and launches, as the host has them

mod access;
mod async_proxy;
mod atomics;
mod barriers;
mod chains;
mod clock;
mod clusters;
mod copies;
mod deadlock;
mod device;
mod exec;
mod fault;
mod fiber;
mod flights;
mod functions;
mod hopper;
mod knowledge;
mod lanes;
mod launch;
mod math;
mod mbarriers;
mod memory;
mod numbers;
mod panics;
mod places;
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
mod views;
mod waiting;
mod worker;

/// What the public modules build on.
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
