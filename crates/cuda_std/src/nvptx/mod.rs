//! The device backend: each function is the instruction that the public documentation names.
//!
//! Three rules hold throughout.
//! 1. What makes threads wait for each other is an LLVM intrinsic where there is one: those are
//!    marked convergent, so the compiler neither duplicates them into branches nor sinks them.
//!    Where there is none (`ldmatrix`, `mma`), the assembly is volatile, which rules out sinking.
//! 2. Pure arithmetic is `pure, nomem`, so that equal instructions are shared and dead ones vanish.
//! 3. Loads from global memory are plain Rust: LLVM sees that a kernel's pointer parameters are
//!    global and writes `ld.global`, with offsets folded into the address. Shared memory has no
//!    address space in Rust, so its accesses are assembly.

mod atomics;
mod cluster;
mod copy;
mod entry;
mod math;
mod mbarrier;
mod memory;
mod mma;
mod registers;
mod shared;
mod shared_chains;
mod thread;
mod warp;
mod wgmma;

pub(crate) use atomics::{AtomicAdd, AtomicInteger};
pub(crate) use cluster::*;
pub(crate) use copy::*;
pub use entry::begin_kernel;
pub(crate) use math::*;
pub(crate) use mbarrier::*;
pub(crate) use memory::GlobalView;
pub(crate) use mma::*;
pub(crate) use registers::*;
pub use shared::SharedSymbol;
pub(crate) use shared::SharedView;
pub(crate) use shared_chains::*;
pub(crate) use thread::*;
pub(crate) use warp::*;
pub(crate) use wgmma::*;

/// A panic stops the launch with a trap. Formatting is left out: it would cost every kernel code
/// that nobody can read the output of.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the launch.
    unsafe { core::arch::nvptx::trap() }
}
