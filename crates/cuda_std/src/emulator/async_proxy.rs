//! The asynchronous proxy's view of shared memory: ordinary stores are visible to it only after a proxy
//! fence.

use std::collections::HashSet;

use super::exec::{Exec, Extension, fail, with};
use super::fault::{FaultKind, Place};
use super::matrix_rows::{ROW_BYTES, Row};
use super::stamp;
use super::vector_clocks::Now;

/// The state of the proxy in the running cluster.
#[derive(Debug)]
struct Proxy {
    /// The fences of each thread.
    fences: Vec<ProxyFence>,
    /// Segments (stamps without locations) in which the proxy itself wrote, which needs no fence.
    own_writes: HashSet<u64>,
}

/// The number of a thread's fences that are kept separately.
const FENCES: usize = 32;

/// A thread's proxy fences: the times of the last ones, newest first, and of the block's last barrier before
/// the newest.
#[derive(Debug, Clone, Default)]
struct ProxyFence {
    times: [u64; FENCES],
    base: u64,
}

impl ProxyFence {
    fn add(&mut self, time: u64, base: u64) {
        self.times.rotate_right(1);
        self.times[0] = time;
        self.base = base;
    }
}

impl Extension for Proxy {
    fn new(exec: &Exec) -> Self {
        Self {
            fences: vec![ProxyFence::default(); exec.threads.len()],
            own_writes: HashSet::new(),
        }
    }
}

/// Records that the proxy writes in this segment.
pub(crate) fn wrote(exec: &mut Exec, segment: u64) {
    exec.extension::<Proxy>().own_writes.insert(segment);
}

/// Makes the current thread's stores visible to the proxy.
pub(crate) fn fence(place: Place) {
    let exec = with();
    exec.tick(place);
    let (time, base, thread) = (exec.next_time(), exec.now.base, exec.thread as usize);
    exec.threads[thread].time = time;
    exec.extension::<Proxy>().fences[thread].add(time, base);
    exec.refresh();
}

impl Proxy {
    /// Whether a proxy fence covers the write with this stamp: one by its thread, or by the current thread
    /// behind a barrier, that is ordered before the current thread.
    fn is_shown(&self, stamp: u64, now: &Now) -> bool {
        let (writer, written) = (stamp::thread(stamp), stamp::time(stamp));
        let fences = &self.fences[writer as usize].times;
        let known = |time: u64| now.ordered(stamp::segment(time, writer));
        // The first fence behind the write is ordered before the most threads.
        let shown = fences[0] > written
            && (known(fences[0]) || {
                let first = fences.iter().rfind(|&&time| time > written);
                first.is_some_and(|&time| known(time))
            });
        shown || stamp < self.fences[now.thread as usize].base
    }
}

/// Whether the write with this stamp is visible to the proxy on behalf of the current thread.
pub(crate) fn is_shown(exec: &mut Exec, stamp: u64) -> bool {
    let now = exec.now;
    exec.extension::<Proxy>().is_shown(stamp, &now)
}

/// Checks that the writes of these rows of shared memory are visible to the proxy.
pub(crate) fn check(rows: &[Row], place: Place) {
    let exec = with();
    let now = exec.now;
    // The result depends on the write stamp alone, and neighbouring cells usually have the same.
    let mut fine = None;
    for row in rows {
        let (region, proxy) = (row.region(), exec.extension::<Proxy>());
        // Bytes beyond the region are reported when they are read.
        let end = (row.offset + ROW_BYTES).min(region.len());
        for index in row.offset >> region.shift()..end.div_ceil(1 << region.shift()) {
            // SAFETY: `index` is at most that of the region's last byte.
            let write = unsafe { (*region.cell(index)).write };
            if fine == Some(write) {
                continue;
            }
            let visible = proxy.is_shown(write, &now)
                || proxy.own_writes.contains(&(write >> stamp::SEGMENT_SHIFT));
            // Unordered writes are races, which the read itself reports.
            if write & stamp::BYTES != 0 && !visible && now.ordered(write) {
                let earlier = exec.earlier("write", write);
                let (object, offset) = (region.describe(), (index << region.shift()) as u64);
                let kind = FaultKind::AsyncProxy {
                    object,
                    offset,
                    earlier,
                };
                fail(place, kind);
            }
            fine = Some(write);
        }
    }
}
