//! Reserved addresses; only touched pages take memory.

/// A zeroed mapping; only written pages take memory.
#[derive(Debug)]
pub(crate) struct Reserved {
    start: *mut u8,
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    bytes: usize,
}

impl Reserved {
    /// Reserves addresses. `None` if the system does not reserve that many.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1);
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping at an address of the system's choice does not affect existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then(|| Self {
            start: start.cast(),
            bytes,
        })
    }

    /// `None`: not implemented for this system.
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    pub(crate) fn new(_: usize) -> Option<Self> {
        None
    }

    /// The first byte, aligned to a page.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and `self` is the only owner.
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        unsafe {
            libc::munmap(self.start.cast(), self.bytes);
        }
    }
}
