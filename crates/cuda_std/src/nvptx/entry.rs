//! The prologue of every kernel.

/// Programmatic dependent launch (`griddepcontrol`, sm_90). Waits until the earlier launches of the stream
/// have completed and their writes are visible. Then lets the next launch start as soon as the last block
/// of this one has reached this call.
///
/// `#[kernel]` puts the call before everything else in each entry, so a kernel may be launched while the
/// previous kernel of its stream ends. Without a launch attribute that asks for it, nothing waits and
/// nothing starts early.
///
/// The wait comes first, so a kernel that starts early can rely on the completion of all launches but the
/// preceding one.
#[inline(always)]
pub fn begin_kernel() {
    #[cfg(cuda_arch = "sm_90a")]
    // SAFETY: waits, and signals. Without `nomem` the compiler moves no memory access in front of it.
    unsafe {
        core::arch::asm!(
            "griddepcontrol.wait;",
            "griddepcontrol.launch_dependents;",
            options(nostack, preserves_flags)
        )
    }
}
