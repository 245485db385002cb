//! Detection of `fork`, after which a child process cannot use the driver.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether this process was forked from one that had used a GPU.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Marks children made by `fork` from now on, so that they do not call the driver, whose state does not work
/// in a child. A system without `pthread_atfork` has no `fork` either.
pub(super) fn watch() {
    #[cfg(unix)]
    {
        unsafe extern "C" fn note() {
            FORKED.store(true, Relaxed);
        }
        static WATCHED: std::sync::Once = std::sync::Once::new();
        // SAFETY: `note` lives as long as the program and is safe in a signal handler. If registering fails
        // for lack of memory, a forked child sees the driver's own errors.
        WATCHED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(note));
        });
    }
}

/// Whether the driver was in use when this process was forked off.
pub(super) fn has_forked() -> bool {
    FORKED.load(Relaxed)
}
