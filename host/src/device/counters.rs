//! Counters of a stream's work.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The work of a [`Stream`](crate::Stream) since the last [`take_counts`](crate::Stream::take_counts).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of kernel launches.
    pub launches: u64,
    /// A lower bound of the bytes that kernels read and write in global memory, as the operators declare it:
    /// each operand once per pass over it, without caches.
    pub bytes_moved: u64,
    /// The peak of the bytes in tensors and workspaces allocated on the stream, less the bytes that were
    /// already allocated at the start.
    pub peak_bytes: u64,
}

/// The counters behind [`Counts`]. They are relaxed atomics: a reader synchronises by other means.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    launches: AtomicU64,
    bytes_moved: AtomicU64,
    live_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    base_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Relaxed);
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn allocated(&self, bytes: u64) {
        let live = self.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(live, Relaxed);
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.live_bytes.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn take(&self) -> Counts {
        let live = self.live_bytes.load(Relaxed);
        Counts {
            launches: self.launches.swap(0, Relaxed),
            bytes_moved: self.bytes_moved.swap(0, Relaxed),
            peak_bytes: self
                .peak_bytes
                .swap(live, Relaxed)
                .saturating_sub(self.base_bytes.swap(live, Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each count begins anew; memory that was allocated before is no part of a peak.
    #[test]
    fn counts_are_those_since_the_last() {
        let counters = Counters::default();
        let take = || {
            let Counts {
                launches,
                bytes_moved,
                peak_bytes,
            } = counters.take();
            [launches, bytes_moved, peak_bytes]
        };
        counters.launched();
        counters.moved(7);
        counters.allocated(100);
        counters.allocated(20);
        counters.freed(20);
        assert_eq!(take(), [1, 7, 120]);
        assert_eq!(take(), [0, 0, 0]);
        counters.freed(50);
        counters.allocated(60);
        counters.launched();
        counters.launched();
        assert_eq!(take(), [2, 0, 10]);
        counters.freed(110);
        assert_eq!(take(), [0, 0, 0]);
        counters.allocated(5);
        assert_eq!(take(), [0, 0, 5]);
    }
}
