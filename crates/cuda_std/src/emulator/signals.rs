//! Signals in kernels become faults, and endless loops can be interrupted.
//!
//! Kernels may use raw pointers, recurse, or loop without calling into this crate. On Linux and x86-64, a
//! launch may ask for signal handling (`Launch::catch_signals`). Signals on its thread, and one that the
//! watchdog sends, then end the running coroutine with a fault. Signals elsewhere in the process go to the
//! previous handlers. Without such a launch no handler is installed. Then, and on other systems, a stack
//! check in every call into this crate and the guard pages of the stacks remain.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "signals/linux.rs"]
mod imp;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "signals/none.rs"]
mod imp;

pub(crate) use imp::{Guard, Target, prepare_thread};
