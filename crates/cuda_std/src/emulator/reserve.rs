//! Memory of which the system has only what is touched.

/// Zeros from the system, as many as asked for, of which those cost memory that were written.
#[derive(Debug)]
pub(crate) struct Reserved {
    start: *mut u8,
    bytes: usize,
}

impl Reserved {
    /// `None` if the system does not give so many addresses, or none in this way.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1);
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping, wherever the system has room, takes nothing away from anybody.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then(|| Self {
            start: start.cast(),
            bytes,
        })
    }

    /// `None`: nothing is known here of how the system does it.
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    pub(crate) fn new(_: usize) -> Option<Self> {
        None
    }

    /// The first byte, on a page.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and whoever has `self` had the only way to it.
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        unsafe {
            libc::munmap(self.start.cast(), self.bytes);
        }
    }
}
