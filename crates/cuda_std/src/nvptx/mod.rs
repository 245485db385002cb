//! The device backend: each function is the instruction named in the public documentation.
//!
//! Three rules hold throughout.
//! 1. Instructions that make threads wait for each other are LLVM intrinsics where these exist. Such
//!    intrinsics are marked convergent, so the compiler neither duplicates them into branches nor sinks
//!    them. Without an intrinsic (`ldmatrix`, `mma`), the assembly is volatile, which rules out sinking.
//! 2. Pure arithmetic is `pure, nomem`, so that equal instructions are shared and dead ones removed.
//! 3. Loads from global memory are plain Rust. LLVM sees that a kernel's pointer parameters are global, and
//!    emits `ld.global` with offsets folded into the address. Shared memory has no address space in Rust,
//!    so its accesses are assembly.
//!    address space in Rust, so its accesses are assembly.

/// Functions that consist of assembly. Each has its options beside `nostack` and `preserves_flags`, its
/// arguments with their register classes, and its result, which is the first operand.
macro_rules! instructions {
    () => {};
    ($(#[$doc:meta])* [$($option:ident)*] unsafe fn $($rest:tt)*) => {
        instructions! { @one [$(#[$doc])*] [$($option)*] [unsafe] $($rest)* }
    };
    ($(#[$doc:meta])* [$($option:ident)*] fn $($rest:tt)*) => {
        instructions! { @one [$(#[$doc])*] [$($option)*] [] $($rest)* }
    };
    (
        @one [$($doc:tt)*] [$($option:ident)*] [$($unsafe:tt)?] $name:ident $([$($generic:tt)*])?
            ($($class:ident $argument:ident: $ty:ty),*) $(-> $out:ident: $result:ty)? = $($text:expr),+;
        $($rest:tt)*
    ) => {
        $($doc)*
        #[inline(always)]
        pub(crate) $($unsafe)? fn $name $(<$($generic)*>)? ($($argument: $ty),*) $(-> $result)? {
            $(let $out: $result;)?
            // SAFETY: it is the instruction named in the public documentation, with the same promise.
            unsafe {
                asm!($($text,)+ $(out(reg32) $out,)? $(in($class) $argument,)* options($($option,)* nostack, preserves_flags));
            }
            $($out)?
        }

        instructions! { $($rest)* }
    };
}

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
pub(crate) use thread::*;
pub(crate) use warp::*;
pub(crate) use wgmma::*;

/// Stops the launch with a trap at a panic. The message is not formatted: formatting would add code to
/// every kernel, and no one could read its output.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the launch.
    unsafe { core::arch::nvptx::trap() }
}
