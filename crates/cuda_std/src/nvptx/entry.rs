//! What every kernel begins with.

/// Waits until the launches before this one on its stream are done and what they wrote can be seen, then lets
/// the launch behind it start as soon as the last block of this one has come here (`griddepcontrol`, sm_90).
///
/// `#[kernel]` puts it before everything else in each entry, so that a kernel may be launched while the one
/// before it on its stream ends. Without a launch that says so nothing waits, and nothing starts early.
///
/// Waiting comes first: whoever starts early finds that all launches but the one right before it are done.
#[inline(always)]
pub fn begin_kernel() {
    #[cfg(cuda_arch = "sm_90a")]
    // SAFETY: waits, and signals. Without `nomem` the compiler moves no access to memory to before it.
    unsafe {
        core::arch::asm!(
            "griddepcontrol.wait;",
            "griddepcontrol.launch_dependents;",
            options(nostack, preserves_flags)
        )
    }
}
