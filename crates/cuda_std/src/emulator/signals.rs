//! What the processor refuses in a kernel becomes a fault, and endless loops can be interrupted.
//!
//! Kernels may use raw pointers, recurse, or loop without ever calling into this crate. On Linux
//! and x86-64 the signals that such code raises (and one that the watchdog sends) are caught on
//! threads that run a launch that asks for it (`Launch::catch_signals`): the running coroutine is
//! made to end with a fault. Signals elsewhere in the process go to whoever handled them before.
//! Where nobody asks no handler is installed. Then, and on other systems, a stack check in every
//! call into this crate and the guard pages of the stacks remain.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "signals/linux.rs"]
mod imp;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "signals/none.rs"]
mod imp;

pub(crate) use imp::{Guard, Target, prepare_thread};
